"""Training of a network by the objective of a discriminative clustering method, labels known of some points or none."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from clustering.deep.networks import Classifier, Prepare, predictions
from clustering.deep.objectives import Objective
from clustering.deep.settings import Advance, Augment, DeepTraining, Job, Log, Observe
from clustering.estimator_input import known_clusters
from clustering.files.training_state import resumable
from clustering.foundation.errors import InputError
from clustering.foundation.fingerprint import fingerprint
from clustering.foundation.streams import stream_key
from clustering.starts import warn_of_empty

__all__ = ["Augment", "DeepTrained", "DeepTraining", "Prepare", "checked_prior", "train"]

RECIPE = 1
"""Of the training code: raise it with a change that gives other weights."""

SEEN = 100
"""Points by which a training knows what `prepare` does."""


@dataclass(frozen=True)
class DeepTrained:
    """What a training came to.

    Attributes:
        model: the network, in evaluation mode.
        labels: (N,) the likeliest cluster of each point as it is, without changes.
        sizes: (K,) points of each cluster.
        resumed_at: finished epochs found at the start.
    """

    model: Classifier
    labels: NDArray[np.int64]
    sizes: NDArray[np.int64]
    resumed_at: int


def train(
    network: Callable[[], nn.Module],
    points: Tensor | NDArray[Any],
    n_clusters: int,
    objective: Objective,
    training: DeepTraining,
    *,
    prior: str | ArrayLike,
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
    """Train a network and a linear head, or go on after the last finished epoch that `folder` holds.

    A training that was interrupted and goes on gives the same weights as one that was not, on the same machine with
    the same number of threads. Torch's own random state stays as it is.

    Args:
        network: makes the backbone, inputs to features (n, D), its weights drawn from torch's random state.
        points: (N, …) numbers, of torch or numpy, as they are stored; they stay where they are.
        n_clusters: K.
        objective: see `clustering.deep.objectives`.
        prior: (K,) sizes of the clusters as they are expected, in proportion, or "balanced".
        seed: weights, order and changes derive from it.
        partial_labels: (N,) known clusters 0..K-1, -1 where unknown.
        augment: makes the other views; needed where `training.views` is above 0.
        prepare: applied to points and their views; by default they become float32.
        folder: gets `last.ckpt` after each epoch.
        log: takes every epoch loss, entropy (mean of the predictions, in nats), cluster_sizes/0 to K-1, of these
            smallest_cluster and largest_cluster (shares of the points seen in the epoch), and what `observe` gives.
        observe: looks at the clusters of an epoch.
        advance: counts points, also those of epochs that were found finished.
        say: told of a damaged state, after which training begins anew.

    Raises:
        InputError: what cannot be; a loss, or predictions after the last step of an epoch, that are no longer finite,
            with the step; the last state stays.

    Warns:
        ConvergenceWarning: clusters without points.
    """
    place = torch.device(device)
    points = _tensor(points)
    shares = checked_prior(prior, n_clusters)
    if training.views and augment is None:
        raise InputError("DeepTraining: views are changed copies, so they need augment; set views=0 or give augment")
    if len(points) < max(2, n_clusters):
        raise InputError(f"{len(points)} points are too few for {n_clusters} clusters")
    known = known_clusters(partial_labels, points, n_clusters)
    prepare = prepare or Tensor.float
    generator = torch.Generator().manual_seed(stream_key(seed, "deep training", "head"))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(stream_key(seed, "deep training", "backbone"))
        model = Classifier(network(), prepare(points[:2]), n_clusters, generator)
    parts = (RECIPE, repr(model), repr(objective), repr(training), repr(augment), seed, str(shares.tolist()))
    seen = prepare(points[:: max(1, len(points) // SEEN)])  # what has no name that lasts is known by what it does
    labels = b"" if known is None else torch.where(known[0], known[1], -1).cpu().numpy().tobytes()
    job = Job(
        model=model,
        points=points,
        objective=objective,
        prior=shares.to(place),
        training=training,
        seed=seed,
        folder=folder,
        identity=fingerprint(*parts, _bytes(points), _bytes(seen), labels),
        device=place,
        prepare=prepare,
        augment=augment,
        known=known,
        log=log,
        observe=observe,
        advance=advance,
    )
    state = None if folder is None else resumable(folder / "last.ckpt", job.identity, say)

    # not above: Lightning takes seconds to import
    from clustering.deep.self_labelling import fit

    resumed_at = fit(job, state)
    log_p = predictions(model, points, prepare, place)
    unsound = int((~log_p.isfinite().all(dim=1)).sum())
    if unsound:
        raise InputError(
            f"training diverged: after the last step the predictions of {unsound} of {len(points)} points are not "
            f"finite; lower learning_rate ({training.learning_rate:g}), or mend points that are not finite"
        )
    found = log_p.argmax(1).numpy()
    sizes = np.bincount(found, minlength=n_clusters)
    warn_of_empty(
        int((sizes == 0).sum()), n_clusters, stacklevel=2, remedy="another seed, fewer clusters or known labels"
    )
    return DeepTrained(model=model, labels=found, sizes=sizes, resumed_at=resumed_at)


def _tensor(points: Tensor | NDArray[Any]) -> Tensor:
    """Points as a tensor, in the same memory where it can be."""
    if isinstance(points, Tensor):
        return points
    try:
        return torch.as_tensor(points)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(f"points must be an array (N, …) of numbers: {error}") from error


def _bytes(tensor: Tensor) -> memoryview:
    return tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data


def checked_prior(prior: str | ArrayLike, n_clusters: int) -> Tensor:
    """(K,) float32 shares of the classes, summing to one.

    Args:
        prior: "balanced", or (K,) sizes in proportion.

    Raises:
        InputError: neither; a size that is nothing beside the others.
    """
    try:
        values = (
            np.ones(n_clusters) if isinstance(prior, str) and prior == "balanced" else np.asarray(prior, np.float64)
        )
    except (TypeError, ValueError):
        values = np.empty(0)
    if values.shape != (n_clusters,) or not np.isfinite(values).all() or values.min() <= 0:
        raise InputError(
            f"prior must be 'balanced' or {n_clusters} numbers above 0, the clusters' expected sizes, not {prior!r}"
        )
    shares = torch.from_numpy(values / values.sum()).float()
    if shares.min() < torch.finfo(shares.dtype).tiny:
        raise InputError(f"prior={values.tolist()}: the least is nothing beside the others; leave that cluster out")
    return shares
