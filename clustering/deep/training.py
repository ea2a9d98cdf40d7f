"""Training of a network on the objective of a discriminative clustering method, with or without known labels, by
Lightning."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytorch_lightning as lightning
import torch
from numpy.typing import ArrayLike, NDArray
from pytorch_lightning.callbacks import ModelCheckpoint
from torch import Tensor, nn
from torch.utils.data import DataLoader

from clustering.deep import losses
from clustering.deep.networks import Classifier, Prepare, outputs
from clustering.deep.objectives import Objective, Relabel
from clustering.deep.settings import Augment, DeepTraining, checked_prior
from clustering.deep.trainer import accelerator_of, train_quietly
from clustering.estimator_input import known_clusters
from clustering.files.torch_files import resumable
from clustering.foundation.errors import InputError
from clustering.foundation.fingerprint import fingerprint
from clustering.foundation.progress import Advance, Log, Observe
from clustering.foundation.streams import stream_key
from clustering.optimiser.alternation import Clamp
from clustering.starts import warn_of_empty

RECIPE = 2
"""Version of the training code; increase it with any change that gives other weights or another form of the state."""

SEEN = 100
"""Number of points on which the effect of `prepare` is fingerprinted."""


@dataclass(frozen=True)
class DeepTrained:
    """Result of a training.

    Attributes:
        model: the network, in evaluation mode.
        labels: (N,) most probable cluster of each unmodified point.
        sizes: (K,) number of points in each cluster.
        resumed_at: number of finished epochs found at the start.
    """

    model: Classifier
    labels: NDArray[np.int64]
    sizes: NDArray[np.int64]
    resumed_at: int


class SelfLabelling(lightning.LightningModule):
    """Trains any pair of an assignment step and a loss, on batches of point indices.

    An incomplete last batch is dropped, with other points in each epoch. Random draws depend on the number of the
    epoch, so that a resumed training repeats them.
    """

    identity = ""
    log_of_epochs: Log | None = None
    observe: Observe | None = None
    advance: Advance | None = None

    def __init__(
        self,
        model: Classifier,
        points: Tensor,
        objective: Objective,
        prior: Tensor,
        training: DeepTraining,
        relabel: Relabel,
        seed: int,
        prepare: Prepare,
        augment: Augment | None,
        known: Clamp | None,
    ) -> None:
        super().__init__()
        self.model, self.points, self.known = model, points, known
        self.objective, self.prior, self.relabel = objective, prior, relabel
        self.settings, self.seed = training, seed
        self.prepare, self.augment = prepare, augment
        self.batch_size = min(training.batch_size, len(points))
        self.steps_per_epoch = len(points) // self.batch_size
        self._draws = torch.Generator()

    @property
    def epochs_done(self) -> int:
        """Number of complete epochs, including those of an interrupted training that this one resumes."""
        return self.global_step // self.steps_per_epoch

    def train_dataloader(self) -> DataLoader[Tensor]:
        key = stream_key(self.seed, "deep training", "order", self.epochs_done)
        order = torch.randperm(len(self.points), generator=torch.Generator().manual_seed(key))
        batches: Any = torch.split(order[: self.steps_per_epoch * self.batch_size], self.batch_size)
        return DataLoader(batches, batch_size=None, generator=torch.Generator())  # not the global one, of dropout

    def transfer_batch_to_device(self, batch: Tensor, device: torch.device, dataloader_idx: int) -> Tensor:
        """Keep indices on the CPU, where the points are."""
        return batch

    def configure_optimizers(self) -> torch.optim.Optimizer:
        training, backbone = self.settings, list(self.model.backbone.parameters())
        decayed = [parameter for parameter in backbone if parameter.ndim > 1]
        others = [parameter for parameter in backbone if parameter.ndim <= 1] + list(self.model.head.parameters())
        groups: list[dict[str, Any]] = [{"params": decayed, "weight_decay": training.weight_decay}, {"params": others}]
        return torch.optim.Adam([group for group in groups if group["params"]], lr=training.learning_rate)

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        checkpoint["identity"] = self.identity

    def on_train_epoch_start(self) -> None:
        self._draws.manual_seed(stream_key(self.seed, "deep training", "views", self.epochs_done))
        torch.manual_seed(stream_key(self.seed, "deep training", "dropout", self.epochs_done))
        self._sums = torch.zeros(2, dtype=torch.float64)
        self._seen = torch.full((len(self.points),), -1)
        self._of_epoch = None
        if self.relabel == "epoch":
            log_p = outputs(self.model, self.points, self.prepare, self.device).to(self.device)
            self.model.train()
            self._of_epoch = self.objective.targets(log_p, self.prior, self._known(torch.arange(len(self.points))))

    def training_step(self, indices: Tensor, batch: int) -> Tensor:
        points = self.points[indices].to(self.device)
        views = [points] + [self.augment(points, self._draws) for _ in range(self.settings.views) if self.augment]
        log_p = self.model(torch.cat([self.prepare(view) for view in views])).unflatten(0, (len(views), len(points)))
        known = self._known(indices)
        if self.relabel == "epoch":
            targets = None if self._of_epoch is None else self._of_epoch[indices.to(self.device)]
        else:
            with torch.no_grad():
                targets = self.objective.targets(log_p[0].detach(), self.prior, known)
        loss = self.objective.loss(log_p, targets, self.prior, known)
        loss = loss + self.settings.margin_weight * losses.margin_norm(self.model.head.weight)
        value = float(loss.detach())
        if not bool(loss.isfinite()):
            raise self._diverged(f"the loss is {value:g} at step {batch + 1} of epoch {self.epochs_done + 1}")
        self._sums += torch.tensor([value, float(losses.mean_entropy(log_p[0].detach()))])
        self._last = indices
        self._seen[indices] = log_p[0].argmax(1).cpu()
        if self.advance is not None:
            self.advance(len(indices), loss=value)
        return loss

    def on_train_epoch_end(self) -> None:
        if not bool(outputs(self.model, self.points[self._last], self.prepare, self.device).isfinite().all()):
            raise self._diverged(f"predictions are no longer finite after epoch {self.epochs_done}")
        self.model.train()
        if self.log_of_epochs is None:
            return
        loss, entropy = (self._sums / self.steps_per_epoch).tolist()
        sizes = torch.bincount(self._seen[self._seen >= 0], minlength=len(self.prior)).double()
        shares = (sizes / sizes.sum()).tolist()
        curves = {f"cluster_sizes/{k}": share for k, share in enumerate(shares)}
        curves |= {"smallest_cluster": min(shares), "largest_cluster": max(shares)}
        observed = self.observe(self._seen.numpy()) if self.observe is not None else {}
        self.log_of_epochs.metrics({"loss": loss, "entropy": entropy, **curves, **observed}, self.epochs_done)

    def _diverged(self, quantity: str) -> InputError:
        return InputError(
            f"training diverged: {quantity} (the last state is kept); lower learning_rate "
            f"({self.settings.learning_rate:g}), or replace points that are not finite"
        )

    def _known(self, indices: Tensor) -> Clamp | None:
        """Known classes in the batch; None if there are none."""
        if self.known is None:
            return None
        mask, labels = (part[indices.to(part.device)].to(self.device) for part in self.known)
        return (mask, labels) if bool(mask.any()) else None


def train(
    network: Callable[[], nn.Module],
    points: Tensor | NDArray[Any],
    n_clusters: int,
    objective: Objective,
    training: DeepTraining,
    *,
    prior: str | ArrayLike,
    relabel: Relabel = "batch",
    seed: int = 0,
    partial_labels: ArrayLike | None = None,
    augment: Augment | None = None,
    prepare: Prepare | None = None,
    folder: Path | None = None,
    device: str | torch.device = "cpu",
    log: Log | None = None,
    observe: Observe | None = None,
    advance: Advance | None = None,
    say: Callable[[str], object] = warnings.warn,
) -> DeepTrained:
    """Train a network and a linear head, or resume after the last finished epoch in `folder`.

    A resumed training gives the same weights as an uninterrupted one, on the same machine with the same number of
    threads. The global random state of torch is not changed.

    Args:
        network: builds the backbone, which maps inputs to features (n, D); its weights are drawn from the random state
            of torch.
        points: (N, …) numbers as a torch or numpy array, which is not copied.
        n_clusters: K.
        objective: see `clustering.deep.objectives`.
        prior: (K,) expected relative sizes of the clusters, or "balanced".
        relabel: when pseudo-labels are computed: for each batch from the predictions of the step; or for all points at
            the beginning of each epoch from the predictions of the network in evaluation mode.
        seed: seed of the weights, the order of points, and the augmentations.
        partial_labels: (N,) known clusters 0..K-1, -1 where unknown.
        augment: computes the other views; needed if `training.views` is above 0.
        prepare: applied to points and their views; the default converts them to float32.
        folder: directory for `last.ckpt`, which is written after each epoch.
        log: called after every epoch with loss, entropy (mean of the predictions, in nats), cluster_sizes/0 to K-1,
            smallest_cluster and largest_cluster (as shares of the points in the epoch), and the values of `observe`.
        observe: computes values for the log from the clusters of an epoch.
        advance: called with the number of processed points, including those of epochs found finished.
        say: called with a message if the state is damaged, in which case training restarts.

    Raises:
        InputError: an argument is invalid; or the loss, or predictions at the end of an epoch, are not finite, in which
            case the message names the step, and the last state is kept.

    Warns: ConvergenceWarning: some clusters are empty.
    """
    place = torch.device(device)
    points = torch.as_tensor(points)
    shares = checked_prior(prior, n_clusters)
    if training.views and augment is None:
        raise InputError("DeepTraining: views are augmented copies, which need augment; set views=0 or pass augment")
    if not training.views and getattr(objective, "needs_views", False):
        raise InputError(f"{type(objective).__name__} compares views of a point; set views to at least 1")
    if len(points) < max(2, n_clusters):
        raise InputError(f"{len(points)} points are too few for {n_clusters} clusters")
    known = known_clusters(partial_labels, points, n_clusters)
    prepare = prepare or Tensor.float
    generator = torch.Generator().manual_seed(stream_key(seed, "deep training", "head"))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(stream_key(seed, "deep training", "backbone"))
        model = Classifier(network(), prepare(points[:2]), n_clusters, generator)
    of = (RECIPE, repr(model), repr(objective), repr(training), repr(augment), seed, str(shares.tolist()), relabel)
    inputs = prepare(points[:: max(1, len(points) // SEEN)])  # functions have no stable names; their effect counts
    labels = b"" if known is None else torch.where(known[0], known[1], -1).cpu().numpy().tobytes()
    identity = fingerprint(*of, _bytes(points), _bytes(inputs), labels)
    state = None if folder is None else resumable(folder / "last.ckpt", identity, say)
    resumed_at = 0 if state is None else int(state["epoch"]) + 1
    module = SelfLabelling(model, points, objective, shares.to(place), training, relabel, seed, prepare, augment, known)
    module.identity, module.log_of_epochs, module.observe, module.advance = identity, log, observe, advance
    if advance is not None and resumed_at:
        advance(resumed_at * module.steps_per_epoch * module.batch_size)
    saved: dict[str, Any] = {"enable_version_counter": False, "save_on_train_epoch_end": True}
    callbacks = [] if folder is None else [ModelCheckpoint(folder, "last", **saved)]
    options = {"max_epochs": training.epochs, "reload_dataloaders_every_n_epochs": 1, **accelerator_of(place)}
    train_quietly(module, folder, resume=None if state is None else "last", callbacks=callbacks, **options)
    log_p = outputs(model, points, prepare, place)
    unsound = int((~log_p.isfinite().all(dim=1)).sum())
    if unsound:
        raise InputError(
            f"training diverged: after the last step the predictions of {unsound} of {len(points)} points are not "
            f"finite; lower learning_rate ({training.learning_rate:g}), or replace points that are not finite"
        )
    predicted = log_p.argmax(1).numpy()
    sizes = np.bincount(predicted, minlength=n_clusters)
    warn_of_empty(
        int((sizes == 0).sum()), n_clusters, stacklevel=2, remedy="another seed, fewer clusters or known labels"
    )
    return DeepTrained(model=model, labels=predicted, sizes=sizes, resumed_at=resumed_at)


def _bytes(tensor: Tensor) -> memoryview:
    return tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data
