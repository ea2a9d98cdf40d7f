"""The Lightning module of discriminative clustering: in every step pseudo-labels of a batch, then a step of the network
towards them."""

from collections.abc import Iterator, Mapping
from typing import Any

import pytorch_lightning as lightning
import torch
from torch import Tensor

from clustering.alternation import Clamp
from clustering.deep import losses
from clustering.deep.training import Job
from clustering.errors import InputError
from clustering.quiet_lightning import silent_lightning
from clustering.state_files import save_state
from clustering.streams import stream_key


class Batches:
    """Batches of indices, in the order of one epoch, which (seed, epoch) determines."""

    def __init__(self, module: "SelfLabelling") -> None:
        self._module = module

    def __len__(self) -> int:
        return self._module.job.steps_per_epoch

    def __iter__(self) -> Iterator[Tensor]:
        job = self._module.job
        generator = torch.Generator().manual_seed(stream_key(job.seed, "deep training", "order", self._module.epoch))
        order = torch.randperm(len(job.points), generator=generator)
        yield from torch.split(order[: len(self) * job.batch_size], job.batch_size)


class SelfLabelling(lightning.LightningModule):
    """Any pair of an assignment step and a loss."""

    def __init__(self, job: Job, state: Mapping[str, Any] | None) -> None:
        super().__init__()
        self.job, self._state = job, state
        self.model = job.model
        self.first_epoch = 0
        if state is not None:
            self.model.load_state_dict(state["weights"])
            self.first_epoch = int(state["epoch"])
        self._draws = torch.Generator()

    @property
    def epoch(self) -> int:
        """The epoch being trained, from 0, counted over all sessions."""
        return self.first_epoch + self.current_epoch

    def train_dataloader(self) -> Batches:
        return Batches(self)

    def transfer_batch_to_device(self, batch: Tensor, device: torch.device, dataloader_idx: int) -> Tensor:
        """Indices stay on the CPU, where the points are."""
        return batch

    def configure_optimizers(self) -> torch.optim.Optimizer:
        training = self.job.training
        backbone = list(self.model.backbone.parameters())
        groups: list[dict[str, Any]] = [
            {"params": [one for one in backbone if one.ndim > 1], "weight_decay": training.weight_decay},
            {"params": [one for one in backbone if one.ndim <= 1] + list(self.model.head.parameters())},
        ]
        self._optimizer = torch.optim.Adam([group for group in groups if group["params"]], lr=training.learning_rate)
        if self._state is not None:
            self._optimizer.load_state_dict(self._state["optimizer"])
        return self._optimizer

    def on_train_epoch_start(self) -> None:
        # all that is drawn in an epoch derives from its number: a resumed training draws the same
        self._draws.manual_seed(stream_key(self.job.seed, "deep training", "views", self.epoch))
        torch.manual_seed(stream_key(self.job.seed, "deep training", "dropout", self.epoch))
        self._sums = torch.zeros(2, dtype=torch.float64)
        self._seen = torch.full((len(self.job.points),), -1)

    def training_step(self, indices: Tensor, batch: int) -> Tensor:
        job = self.job
        points = job.points[indices].to(self.device)
        views = [points] + [job.augment(points, self._draws) for _ in range(job.training.views) if job.augment]
        log_p = self.model(torch.cat([job.prepare(view) for view in views])).unflatten(0, (len(views), len(points)))
        known = self._known(indices)
        with torch.no_grad():
            targets = job.objective.targets(log_p[0].detach(), job.prior, known)
        loss = job.objective.loss(log_p, targets, job.prior, known)
        loss = loss + job.training.margin_weight * losses.margin_norm(self.model.head.weight)
        if not bool(loss.isfinite()):
            kept = f"epoch {self.epoch} is kept" if self.epoch and job.folder else "nothing is kept"
            raise InputError(
                f"training diverged: the loss is {float(loss.detach()):g} at step {batch + 1} of epoch "
                f"{self.epoch + 1} ({kept}); lower learning_rate ({job.training.learning_rate:g}), or mend points "
                "that are not finite"
            )
        value = float(loss.detach())
        self._sums += torch.tensor([value, float(losses.mean_entropy(log_p[0].detach()))])
        self._seen[indices] = log_p[0].argmax(1).cpu()
        if job.advance is not None:
            job.advance(len(indices), loss=value)
        return loss

    def on_train_epoch_end(self) -> None:
        job, epoch = self.job, self.epoch + 1
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

    def _known(self, indices: Tensor) -> Clamp | None:
        """Of the batch; None where no class in it is known."""
        if self.job.known is None:
            return None
        mask, labels = (part[indices.to(part.device)].to(self.device) for part in self.job.known)
        return (mask, labels) if bool(mask.any()) else None


def fit(job: Job, state: Mapping[str, Any] | None) -> int:
    """Run the epochs that are left; gives how many were there."""
    module = SelfLabelling(job, state)
    if job.advance is not None and module.first_epoch:
        job.advance(min(module.first_epoch, job.training.epochs) * job.steps_per_epoch * job.batch_size)
    left = job.training.epochs - module.first_epoch
    if left <= 0:
        return module.first_epoch
    on_gpu = job.device.type == "cuda"
    index = (job.device.index or 0) if on_gpu else 0
    job.model.train()
    with silent_lightning(), torch.random.fork_rng(devices=[index] if on_gpu else []):
        trainer = lightning.Trainer(
            accelerator="gpu" if on_gpu else "cpu",
            devices=[index] if on_gpu else 1,
            max_epochs=left,
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            use_distributed_sampler=False,
            default_root_dir=job.folder,
        )
        try:
            trainer.fit(module)
        except SystemExit as stopped:
            # Lightning turns Ctrl-C into an exit with code 1
            if not isinstance(stopped.__context__, KeyboardInterrupt):
                raise
            raise KeyboardInterrupt from None
    return module.first_epoch
