"""Training by ultimate layer reversal: a sequence of phases, training curves, and a state from which it can resume.

The training does not use Lightning, for three reasons. A batch combines labelled points, linked points with their
partners and a sample of the other points, which data loaders do not support. Each network defines its own optimiser.
M depends on the whole batch, so a batch cannot be split between devices.
"""

import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from clustering.deep.xsdc.reversal import BatchStep, Diverged, Reversal
from clustering.deep.xsdc.rounding import nearest_labels, spectral_labels
from clustering.files.training_state import resumable, save_state
from clustering.foundation.errors import InputError
from clustering.foundation.fingerprint import fingerprint
from clustering.foundation.progress import Advance, Log, Observe
from clustering.foundation.streams import stream

RECIPE = 3
"""Version of the training code, to be increased when a change leads to different weights."""

STATE = "last.ckpt"
_KEEP = 20
"""Number of steps between writes of the state; the state is also written after the last step of a phase."""

_WATCH = 10
"""Number of steps between points of the training curves."""


_GAIN = 0.03
"""Relative decrease of F that steps on pseudo-labels must achieve."""


class Phase(NamedTuple):
    """Consecutive steps of one kind.

    Attributes:
        kind: "supervised" for steps on labelled points only, "assigned" for steps on all points.
        steps: number of steps.
        step_size: step size of the network's optimiser.
        falling: whether the step size decreases along half a cosine, from `step_size` at the first step towards 0 after
            the last; else it is constant.
    """

    kind: Literal["supervised", "assigned"]
    steps: int
    step_size: float
    falling: bool = False

    def size(self, done: int) -> float:
        """Step size after `done` steps, as a share of the initial step size."""
        return (1 + math.cos(math.pi * done / self.steps)) / 2 if self.falling else 1.0


class TrainedPhases(NamedTuple):
    """Result of `train`; the network is trained in place.

    Attributes:
        trace: (steps,) F of each batch, see `clustering.deep.xsdc.reversal.BatchStep`.
        residuals: (steps,) number of points by which cluster sizes violate their bounds after balancing.
        eigengaps: (steps,) gap between the eigenvalues K and K + 1 of A for each batch; NaN for supervised steps.
        resumed_at: number of steps completed before the training resumed.
        before: parameters and buffers of the network before the last phase with steps.
    """

    trace: NDArray[np.float64]
    residuals: NDArray[np.float64]
    eigengaps: NDArray[np.float64]
    resumed_at: int
    before: dict[str, Tensor]


def train(
    training: Reversal,
    phases: Sequence[Phase],
    *,
    penalty: float | Callable[[], float],
    decay: float,
    batch_size: int,
    seed: int,
    folder: Path | None = None,
    log: Log | None = None,
    observe: Observe | None = None,
    advance: Advance | None = None,
) -> TrainedPhases:
    """Train the network, or resume from the state in `folder`.

    On the same machine with the same number of threads, an interrupted and resumed training gives the same weights as
    an uninterrupted one.

    Args:
        training: points and network, whose parameters have been initialised.
        phases: phases in order.
        penalty: the ridge penalty, or a function that returns the penalty at the start of each phase.
        decay: weight decay of the network's optimiser.
        batch_size: half of the maximum number of points in a batch; see `clustering.deep.xsdc.batches`.
        seed: seed of the batches.
        folder: folder to which the state is written every twenty steps and after each phase.
        log: receives F of the batch at each tenth step, counted from 1 over all phases, and at the last step of each
            phase: as supervised_loss if all labels are known; else as loss, with residual, entropy (mean entropy of
            the rows of M in nats), smallest_cluster and largest_cluster (shares of the batch), and the values of
            `observe`.
        observe: returns values to log from the clusters that unlabelled points of the batch would get.
        advance: counts steps, including those completed before the training resumed.

    Raises:
        InputError: the state belongs to another training, a step size or decay is too large, or values are no longer
            finite (the message names the step); the last state is kept.

    Warns:
        UserWarning: the state is damaged, so the training starts from the beginning.
    """
    network = training.network
    identity = "" if folder is None else _identity(training, phases, penalty, decay, batch_size, seed)
    state = None if folder is None else resumable(folder / STATE, identity, warnings.warn)
    trace: list[tuple[float, ...]] = [] if state is None else [tuple(row) for row in state["trace"].tolist()]
    resumed_at = len(trace)
    if state is not None:
        network.load_state_dict(state["network"])
    if state is not None and training.deep is not None and state["labels"] is not None:
        training.deep.labels = state["labels"].numpy()
    if advance is not None and resumed_at:
        advance(resumed_at)
    before, kept = 0, resumed_at
    start = _copied(network) if state is None else state["start"]
    for number, phase in enumerate(phases):
        completed = min(max(resumed_at - before, 0), phase.steps)
        last = before + phase.steps
        if completed < phase.steps:
            start = start if completed else _copied(network)
            optimizer = network.optimizer(phase.step_size, decay)
            sizes = [group["lr"] for group in optimizer.param_groups]
            if state is not None and completed:
                optimizer.load_state_dict(state["optimizer"])
                weight = float(state["penalty"])
            else:
                weight = penalty() if callable(penalty) else penalty
            kind = training.supervised if phase.kind == "supervised" else training.assigned
            steps = kind(weight, optimizer, batch_size, stream(seed, "batches", number), done=completed)
            while len(trace) < last:
                for group, size in zip(optimizer.param_groups, sizes, strict=True):
                    group["lr"] = size * phase.size(len(trace) - before)
                step = _next(steps, before, folder, kept)
                trace.append((step.objective, step.residual, step.eigengap))
                if advance is not None:
                    advance(1, loss=step.objective)
                if log is not None and (len(trace) % _WATCH == 0 or len(trace) == last):
                    log.metrics(_seen(training, step, observe, stream(seed, "curves", len(trace))), len(trace))
                if folder is not None and (len(trace) % _KEEP == 0 or len(trace) == last):
                    _keep(folder, identity, training, start, optimizer, weight, trace)
                    kept = len(trace)
        before = last
    objectives, residuals, eigengaps = np.array(trace, dtype=np.float64).reshape(-1, 3).T
    return TrainedPhases(objectives, residuals, eigengaps, resumed_at, start)


def _copied(network: Any) -> dict[str, Tensor]:
    return {name: tensor.detach().clone() for name, tensor in network.state_dict().items()}


def kept(
    training: Reversal, before: Mapping[str, Tensor], points: NDArray[np.int64], penalty: Callable[[], float]
) -> bool:
    """Whether a training decreased F of these points by at least the share `_GAIN`; otherwise the network is reset to
    `before`.

    If clusters overlap, steps on pseudo-labels hardly decrease F, and can make features less consistent with the
    labels.

    Args:
        training: points, and the network after the training.
        before: parameters and buffers of the network before the training.
        points: (n,) a subset of the points; M is computed for the features before and after the training.
        penalty: function that returns the penalty; called once, for the network before the training.
    """
    network = training.network
    after = _copied(network)
    network.load_state_dict(before)
    weight = penalty()
    loss = training.loss(points, weight)
    network.load_state_dict(after)
    if training.loss(points, weight) <= (1 - _GAIN) * loss:
        return True
    network.load_state_dict(before)
    return False


def _next(steps: Iterator[BatchStep], before: int, folder: Path | None, kept: int) -> BatchStep:
    """The next step; if it fails, the error names its number counted over all phases."""
    try:
        return next(steps)
    except Diverged as error:
        raise _broken(error.what, before + error.step, folder, kept) from error


def _broken(quantity: str, step: int, folder: Path | None, kept: int) -> InputError:
    kept_at = f"; the state of step {kept} is kept in {folder}" if folder is not None and kept else ""
    return InputError(f"training diverged: {quantity} not finite at step {step}{kept_at}; lower the step size")


def _seen(
    training: Reversal, step: BatchStep, observe: Observe | None, generator: np.random.Generator
) -> dict[str, float]:
    """Logged values of a step."""
    M = step.equivalence
    if M is None:
        return {"supervised_loss": step.objective}
    sums = M.sum(1)
    rows, shares = M / sums[:, None], sums / len(M)
    values = {
        "loss": step.objective,
        "residual": step.residual,
        "entropy": float(-torch.xlogy(rows, rows).sum(1).mean()),
        "smallest_cluster": float(shares.min()),
        "largest_cluster": float(shares.max()),
    }
    return values if observe is None else values | dict(observe(_clusters(training, step, M, generator)))


def _clusters(training: Reversal, step: BatchStep, M: Tensor, generator: np.random.Generator) -> NDArray[np.int64]:
    """(N,) cluster that each unlabelled point of the batch would get, -1 for all other points."""
    clusters = np.full(len(training.inputs), -1, dtype=np.int64)
    known = training.known.labels[step.points]
    others = known < 0
    if len(np.unique(known[~others])) == training.clusters:
        features = step.features.cpu().numpy()
        clusters[step.points[others]] = nearest_labels(features[others], features[~others], known[~others])
    elif len(M) >= training.clusters:
        clusters[step.points[others]] = spectral_labels(M.cpu().numpy(), training.clusters, generator)[others]
    return clusters


def _keep(
    folder: Path,
    identity: str,
    training: Reversal,
    start: dict[str, Tensor],
    optimizer: Any,
    penalty: float,
    trace: list[Any],
) -> None:
    labels = None if training.deep is None else training.deep.labels
    save_state(
        folder / STATE,
        {
            "identity": identity,
            "network": training.network.state_dict(),
            "labels": None if labels is None else torch.from_numpy(labels),
            "start": start,
            "optimizer": optimizer.state_dict(),
            "penalty": penalty,
            "trace": torch.tensor(trace, dtype=torch.float64),
        },
    )


def _identity(
    training: Reversal, phases: Sequence[Phase], penalty: object, decay: float, batch_size: int, seed: int
) -> str:
    """Fingerprint of everything that determines the weights: the initial network, points, labels and links, and
    phases."""
    known = training.known
    settings = (
        RECIPE,
        training.clusters,
        training.min_share,
        training.max_share,
        training.rounds,
        training.assignment,
        training.copies,
        training.deep,
        training.seed,
        "chosen" if callable(penalty) else penalty,
        decay,
        batch_size,
    )
    arrays = [known.groups, known.labels, known.apart.indptr, known.apart.indices, known.coarse]
    tensors = [training.inputs, *training.network.state_dict().values()]
    arrays += [tensor.detach().cpu().contiguous().numpy() for tensor in tensors]
    stored = [np.ascontiguousarray(array).reshape(-1).view(np.uint8).data for array in arrays if array.size]
    return fingerprint(repr(training.network), repr(settings), repr(tuple(phases)), seed, *stored)
