"""The Lightning module of discriminative clustering: a gradient step towards the pseudo-labels of each batch, which are
computed for the batch, or for all points at the beginning of the epoch."""

from collections.abc import Iterator, Mapping
from typing import Any

import pytorch_lightning as lightning
import torch
from torch import Tensor

from clustering.deep import losses
from clustering.deep.networks import predictions
from clustering.deep.settings import Job
from clustering.files.torch_files import save_state
from clustering.foundation.errors import InputError
from clustering.foundation.quiet_lightning import accelerator_of, train_quietly
from clustering.foundation.streams import stream_key
from clustering.optimiser.alternation import Clamp


class SelfLabelling(lightning.LightningModule):
    """Trains any pair of an assignment step and a loss, on batches of point indices.

    An incomplete last batch is dropped, with other points in each epoch. Epochs are counted over all sessions.
    """

    def __init__(self, job: Job, state: Mapping[str, Any] | None) -> None:
        super().__init__()
        self.first_epoch = 0 if state is None else int(state["epoch"])
        self.job, self._state = job, state
        self.model = job.model
        if state is not None:
            self.model.load_state_dict(state["weights"])
        self._draws = torch.Generator()

    @property
    def epoch(self) -> int:
        """Current epoch, counted from 0 over all sessions."""
        return self.first_epoch + self.current_epoch

    def train_dataloader(self) -> "_Batches":
        return _Batches(self)

    def transfer_batch_to_device(self, batch: Tensor, device: torch.device, dataloader_idx: int) -> Tensor:
        """Keep indices on the CPU, where the points are."""
        return batch

    def configure_optimizers(self) -> torch.optim.Optimizer:
        training = self.job.training
        backbone = list(self.model.backbone.parameters())
        groups: list[dict[str, Any]] = [
            {
                "params": [parameter for parameter in backbone if parameter.ndim > 1],
                "weight_decay": training.weight_decay,
            },
            {
                "params": [parameter for parameter in backbone if parameter.ndim <= 1]
                + list(self.model.head.parameters())
            },
        ]
        self._optimizer = torch.optim.Adam([group for group in groups if group["params"]], lr=training.learning_rate)
        if self._state is not None:
            self._optimizer.load_state_dict(self._state["optimizer"])
        return self._optimizer

    def on_train_epoch_start(self) -> None:
        # random draws depend on the number of the epoch, so that a resumed training repeats them
        self._draws.manual_seed(stream_key(self.job.seed, "deep training", "views", self.epoch))
        torch.manual_seed(stream_key(self.job.seed, "deep training", "dropout", self.epoch))
        self._sums = torch.zeros(2, dtype=torch.float64)
        self._seen = torch.full((len(self.job.points),), -1)
        self._of_epoch = self._epoch_targets() if self.job.relabel == "epoch" else None

    def _epoch_targets(self) -> Tensor | None:
        """(N, K) pseudo-labels of all points, by the network in evaluation mode; None if the objective has none."""
        job = self.job
        log_p = predictions(self.model, job.points, job.prepare, self.device).to(self.device)
        self.model.train()
        return job.objective.targets(log_p, job.prior, self._known(torch.arange(len(job.points))))

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
        if not bool(loss.isfinite()):
            raise self._diverged(f"the loss is {float(loss.detach()):g} at step {batch + 1}")
        value = float(loss.detach())
        self._sums += torch.tensor([value, float(losses.mean_entropy(log_p[0].detach()))])
        self._last = indices
        self._seen[indices] = log_p[0].argmax(1).cpu()
        if job.advance is not None:
            job.advance(len(indices), loss=value)
        return loss

    def on_train_epoch_end(self) -> None:
        job, epoch = self.job, self.epoch + 1
        if not bool(predictions(self.model, job.points[self._last], job.prepare, self.device).isfinite().all()):
            raise self._diverged(f"predictions are no longer finite after step {job.steps_per_epoch}, the last")
        self.model.train()
        loss, entropy = (self._sums / job.steps_per_epoch).tolist()
        if job.log is not None:
            sizes = torch.bincount(self._seen[self._seen >= 0], minlength=len(job.prior)).double()
            shares = (sizes / sizes.sum()).tolist()
            curves = {f"cluster_sizes/{k}": share for k, share in enumerate(shares)}
            curves |= {"smallest_cluster": min(shares), "largest_cluster": max(shares)}
            observed = job.observe(self._seen.numpy()) if job.observe is not None else {}
            job.log.metrics({"loss": loss, "entropy": entropy, **curves, **observed}, epoch)
        if job.folder is not None:
            state = {
                "identity": job.identity,
                "epoch": epoch,
                "weights": self.model.state_dict(),
                "optimizer": self._optimizer.state_dict(),
            }
            save_state(job.folder / "last.ckpt", state)

    def _diverged(self, quantity: str) -> InputError:
        kept = f"epoch {self.epoch} is kept" if self.epoch and self.job.folder else "nothing is kept"
        return InputError(
            f"training diverged: {quantity} of epoch {self.epoch + 1} ({kept}); lower learning_rate "
            f"({self.job.training.learning_rate:g}), or replace points that are not finite"
        )

    def _known(self, indices: Tensor) -> Clamp | None:
        """Known classes in the batch; None if there are none."""
        if self.job.known is None:
            return None
        mask, labels = (part[indices.to(part.device)].to(self.device) for part in self.job.known)
        return (mask, labels) if bool(mask.any()) else None


class _Batches:
    """The batches of the module's current epoch."""

    def __init__(self, module: SelfLabelling) -> None:
        self._module = module

    def __len__(self) -> int:
        return self._module.job.steps_per_epoch

    def __iter__(self) -> Iterator[Tensor]:
        job = self._module.job
        key = stream_key(job.seed, "deep training", "order", self._module.epoch)
        order = torch.randperm(len(job.points), generator=torch.Generator().manual_seed(key))
        yield from torch.split(order[: len(self) * job.batch_size], job.batch_size)


def fit(job: Job, state: Mapping[str, Any] | None) -> int:
    """Run the remaining epochs; returns how many were already finished."""
    module = SelfLabelling(job, state)
    if job.advance is not None and module.first_epoch:
        job.advance(min(module.first_epoch, job.training.epochs) * job.steps_per_epoch * job.batch_size)
    left = job.training.epochs - module.first_epoch
    if left <= 0:
        return module.first_epoch
    job.model.train()
    train_quietly(module, job.folder, max_epochs=left, **accelerator_of(job.device))
    return module.first_epoch
