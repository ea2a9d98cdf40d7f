"""The Lightning module of discriminative clustering: a gradient step towards the pseudo-labels of each batch, which are
computed for the batch, or for all points at the beginning of the epoch."""

from pathlib import Path
from typing import Any

import pytorch_lightning as lightning
import torch
from pytorch_lightning.callbacks import ModelCheckpoint
from torch import Tensor
from torch.utils.data import DataLoader

from clustering.deep import losses
from clustering.deep.networks import predictions
from clustering.deep.settings import Job
from clustering.foundation.errors import InputError
from clustering.foundation.quiet_lightning import accelerator_of, train_quietly
from clustering.foundation.streams import stream_key
from clustering.optimiser.alternation import Clamp


class SelfLabelling(lightning.LightningModule):
    """Trains any pair of an assignment step and a loss, on batches of point indices.

    An incomplete last batch is dropped, with other points in each epoch. Random draws depend on the number of the
    epoch, so that a resumed training repeats them.
    """

    def __init__(self, job: Job) -> None:
        super().__init__()
        self.job, self.model = job, job.model
        self._draws = torch.Generator()

    @property
    def epochs_done(self) -> int:
        """Number of complete epochs, including those of an interrupted training that this one resumes."""
        return self.global_step // self.job.steps_per_epoch

    def train_dataloader(self) -> DataLoader[Tensor]:
        job = self.job
        key = stream_key(job.seed, "deep training", "order", self.epochs_done)
        order = torch.randperm(len(job.points), generator=torch.Generator().manual_seed(key))
        batches: Any = torch.split(order[: job.steps_per_epoch * job.batch_size], job.batch_size)
        return DataLoader(batches, batch_size=None, generator=torch.Generator())  # not the global one, of dropout

    def transfer_batch_to_device(self, batch: Tensor, device: torch.device, dataloader_idx: int) -> Tensor:
        """Keep indices on the CPU, where the points are."""
        return batch

    def configure_optimizers(self) -> torch.optim.Optimizer:
        training, backbone = self.job.training, list(self.model.backbone.parameters())
        decayed = [parameter for parameter in backbone if parameter.ndim > 1]
        others = [parameter for parameter in backbone if parameter.ndim <= 1] + list(self.model.head.parameters())
        groups: list[dict[str, Any]] = [{"params": decayed, "weight_decay": training.weight_decay}, {"params": others}]
        return torch.optim.Adam([group for group in groups if group["params"]], lr=training.learning_rate)

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        checkpoint["identity"] = self.job.identity

    def on_train_epoch_start(self) -> None:
        job = self.job
        self._draws.manual_seed(stream_key(job.seed, "deep training", "views", self.epochs_done))
        torch.manual_seed(stream_key(job.seed, "deep training", "dropout", self.epochs_done))
        self._sums = torch.zeros(2, dtype=torch.float64)
        self._seen = torch.full((len(job.points),), -1)
        self._of_epoch = None
        if job.relabel == "epoch":
            log_p = predictions(self.model, job.points, job.prepare, self.device).to(self.device)
            self.model.train()
            self._of_epoch = job.objective.targets(log_p, job.prior, self._known(torch.arange(len(job.points))))

    def training_step(self, indices: Tensor, batch: int) -> Tensor:
        job = self.job
        points = job.points[indices].to(self.device)
        views = [points] + [job.augment(points, self._draws) for _ in range(job.training.views) if job.augment]
        log_p = self.model(torch.cat([job.prepare(view) for view in views])).unflatten(0, (len(views), len(points)))
        known = self._known(indices)
        if job.relabel == "epoch":
            targets = None if self._of_epoch is None else self._of_epoch[indices.to(self.device)]
        else:
            with torch.no_grad():
                targets = job.objective.targets(log_p[0].detach(), job.prior, known)
        loss = job.objective.loss(log_p, targets, job.prior, known)
        loss = loss + job.training.margin_weight * losses.margin_norm(self.model.head.weight)
        value = float(loss.detach())
        if not bool(loss.isfinite()):
            raise self._diverged(f"the loss is {value:g} at step {batch + 1} of epoch {self.epochs_done + 1}")
        self._sums += torch.tensor([value, float(losses.mean_entropy(log_p[0].detach()))])
        self._last = indices
        self._seen[indices] = log_p[0].argmax(1).cpu()
        if job.advance is not None:
            job.advance(len(indices), loss=value)
        return loss

    def on_train_epoch_end(self) -> None:
        job = self.job
        if not bool(predictions(self.model, job.points[self._last], job.prepare, self.device).isfinite().all()):
            raise self._diverged(f"predictions are no longer finite after epoch {self.epochs_done}")
        self.model.train()
        if job.log is None:
            return
        loss, entropy = (self._sums / job.steps_per_epoch).tolist()
        sizes = torch.bincount(self._seen[self._seen >= 0], minlength=len(job.prior)).double()
        shares = (sizes / sizes.sum()).tolist()
        curves = {f"cluster_sizes/{k}": share for k, share in enumerate(shares)}
        curves |= {"smallest_cluster": min(shares), "largest_cluster": max(shares)}
        observed = job.observe(self._seen.numpy()) if job.observe is not None else {}
        job.log.metrics({"loss": loss, "entropy": entropy, **curves, **observed}, self.epochs_done)

    def _diverged(self, quantity: str) -> InputError:
        return InputError(
            f"training diverged: {quantity} (the last state is kept); lower learning_rate "
            f"({self.job.training.learning_rate:g}), or replace points that are not finite"
        )

    def _known(self, indices: Tensor) -> Clamp | None:
        """Known classes in the batch; None if there are none."""
        if self.job.known is None:
            return None
        mask, labels = (part[indices.to(part.device)].to(self.device) for part in self.job.known)
        return (mask, labels) if bool(mask.any()) else None


def fit(job: Job, folder: Path | None, device: torch.device, *, resume: bool) -> None:
    """Run the remaining epochs, with the state after each in `folder`."""
    saved: dict[str, Any] = {"enable_version_counter": False, "save_on_train_epoch_end": True}
    callbacks = [] if folder is None else [ModelCheckpoint(folder, "last", **saved)]
    options = {"max_epochs": job.training.epochs, "reload_dataloaders_every_n_epochs": 1, **accelerator_of(device)}
    train_quietly(SelfLabelling(job), folder, resume="last" if resume else None, callbacks=callbacks, **options)
