"""Training of a network on the objective of a discriminative clustering method, with or without known labels."""

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
from clustering.deep.objectives import Objective, Relabel
from clustering.deep.prior import checked_prior
from clustering.deep.settings import Augment, DeepTraining, Job
from clustering.estimator_input import known_clusters
from clustering.files.torch_files import resumable
from clustering.foundation.errors import InputError
from clustering.foundation.fingerprint import fingerprint
from clustering.foundation.progress import Advance, Log, Observe
from clustering.foundation.streams import stream_key
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
    job = Job(
        model,
        points,
        objective,
        shares.to(place),
        training,
        relabel,
        seed,
        identity,
        prepare,
        augment,
        known,
        log,
        observe,
        advance,
    )
    if advance is not None and resumed_at:
        advance(resumed_at * job.steps_per_epoch * job.batch_size)

    # slow import of Lightning, deferred
    from clustering.deep.self_labelling import fit

    fit(job, folder, place, resume=state is not None)
    log_p = predictions(model, points, prepare, place)
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
