"""Training by ultimate layer reversal (`clustering.deep.xsdc.reversal`): phases of steps, their curves, and the state
from which a training resumes.

This is a plain loop and not a Lightning module. With Lightning, a step on 100 labelled digits takes 2.6 ms instead of
1.8, one on batches of 2 x 256 digits a tenth more than 10 ms, and one on large batches as long. Its import takes more
than 2.4 s, and a whole fit of digits 1 to 3 s.
"""

import dataclasses
import math
import warnings
from collections.abc import Mapping, Sequence
from itertools import accumulate, islice
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from sklearn.metrics import pairwise_distances_argmin
from torch import Tensor
from torch.optim.lr_scheduler import LambdaLR

from clustering.deep.xsdc.assignments import spectral_labels
from clustering.deep.xsdc.reversal import BatchStep, Reversal
from clustering.files.torch_files import resumable, save_state
from clustering.foundation.fingerprint import fingerprint
from clustering.foundation.progress import Advance, Log, Observe
from clustering.foundation.streams import stream

RECIPE = 5
"""Version of the training code, to be increased when a change leads to different weights or another state."""

STATE = "last.ckpt"
_KEEP = 20
"""Number of steps between writes of the state; the state is also written after the last step of a phase."""

_WATCH = 10
"""Number of steps between points of the training curves."""

_GAIN = 0.03
"""Relative decrease of F that steps on pseudo-labels must achieve."""

_ROUNDED = 2000
"""Number of points whose M is rounded if labels are unknown; the memory of the eigendecomposition of M grows with its
square."""


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
        trace, residuals, eigengaps: (steps,) objective, residual and eigengap of each step, see `BatchStep`.
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
        phases: phases in order; the penalty is chosen at the start of each.
        folder: folder to which the state is written every twenty steps and after each phase.
        log: receives F of the batch at each tenth step, counted from 1 over all phases, and at the last step of each
            phase: as supervised_loss if all labels are known; else as loss, with residual, entropy (mean entropy of
            the rows of M in nats), smallest_cluster and largest_cluster (shares of the batch), and the values of
            `observe`.
        observe: returns values to log from the clusters that unlabelled points of the batch would get.
        advance: counts steps, including those completed before the training resumed.

    Raises:
        InputError: the state belongs to another training, or a step size is too large, so that values are no longer
            finite (the message names the step).

    Warns:
        UserWarning: the state is damaged, so the training starts from the beginning.
    """
    network, trace, start = training.network, list[tuple[float, ...]](), _copied(training.network)
    identity = "" if folder is None else _identity(training, phases)
    state = None if folder is None else resumable(folder / STATE, identity, warnings.warn)
    if state is not None:
        network.load_state_dict(state["network"])
        trace, start = [tuple(row) for row in state["trace"].tolist()], state["start"]
        training.deep = None if state["deep"] is None else state["deep"].numpy()
        if advance is not None:
            advance(len(trace))
    resumed_at = len(trace)
    for number, (phase, last) in enumerate(zip(phases, accumulate(one.steps for one in phases), strict=True)):
        done = len(trace) - last + phase.steps
        if done >= phase.steps:
            continue
        optimizer = network.optimizer(phase.step_size, training.solver.decay)
        if state is not None and done:
            optimizer.load_state_dict(state["optimizer"])
            weight = float(state["penalty"])
        else:
            start, weight = _copied(network), training.weight()
        schedule = LambdaLR(optimizer, phase.size, last_epoch=done - 1)
        steps = training.steps(phase.kind, weight, optimizer, stream(training.seed, "batches", number), done=done)
        for step in islice(steps, phase.steps - done):
            schedule.step()
            trace.append((step.objective, step.residual, step.eigengap))
            if advance is not None:
                advance(1, loss=step.objective)
            if log is not None and (len(trace) % _WATCH == 0 or len(trace) == last):
                log.metrics(_seen(training, step, observe, stream(training.seed, "curves", len(trace))), len(trace))
            if folder is not None and (len(trace) % _KEEP == 0 or len(trace) == last):
                state = {"identity": identity, "network": network.state_dict(), "start": start, "penalty": weight}
                state |= {"optimizer": optimizer.state_dict(), "trace": torch.tensor(trace, dtype=torch.float64)}
                state |= {"deep": None if training.deep is None else torch.from_numpy(training.deep)}
                save_state(folder / STATE, state)
    objectives, residuals, eigengaps = np.array(trace, dtype=np.float64).reshape(-1, 3).T
    return TrainedPhases(objectives, residuals, eigengaps, resumed_at, start)


def _copied(network: Any) -> dict[str, Tensor]:
    return {name: tensor.detach().clone() for name, tensor in network.state_dict().items()}


def kept(training: Reversal, before: Mapping[str, Tensor], points: NDArray[np.int64]) -> bool:
    """Whether a training decreased F of these points by at least the share `_GAIN`; otherwise the network is reset to
    `before`.

    If clusters overlap, steps on pseudo-labels hardly decrease F, and can make features less consistent with the
    labels.

    Args:
        training: points, and the network after the training.
        before: parameters and buffers of the network before the training, for which the penalty is chosen.
        points: (n,) a subset of the points; M is computed for the features before and after the training.
    """
    network, after = training.network, _copied(training.network)
    network.load_state_dict(before)
    weight = training.weight()
    loss = training.loss(points, weight)
    network.load_state_dict(after)
    gained = training.loss(points, weight) <= (1 - _GAIN) * loss
    if not gained:
        network.load_state_dict(before)
    return gained


def rounded_labels(
    training: Reversal, features: Tensor, penalty: float, generator: np.random.Generator
) -> NDArray[np.int64]:
    """(N,) labels of all points: M of a sample of the points is rounded, and the other points get the label of the
    nearest point of the sample. Clusters are matched to the known labels.

    Args:
        training: points with their labels and links.
        features: (N, D) features of all points.
        penalty: penalty of the regression for which M is computed.
        generator: random generator of the sample.
    """
    known, clusters = training.known, training.clusters
    told = next(training.batches(generator, _ROUNDED // 2)).known
    rest = generator.permutation(np.setdiff1d(np.flatnonzero(known.labels < 0), told))
    points = np.concatenate([told, rest])[:_ROUNDED]
    sample = features[torch.from_numpy(points).to(features.device)]
    M, _ = training.equivalence(sample, points, penalty)
    assigned = spectral_labels(M.cpu().numpy(), clusters, generator)
    table = np.zeros((clusters, clusters))
    named = known.labels[points] >= 0
    np.add.at(table, (assigned[named], known.labels[points][named]), 1)
    assigned = linear_sum_assignment(table, maximize=True)[1][assigned]
    return np.asarray(assigned[pairwise_distances_argmin(features.cpu().numpy(), sample.cpu().numpy())])


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
        nearest = pairwise_distances_argmin(features[others], features[~others])
        clusters[step.points[others]] = known[~others][nearest]
    elif len(M) >= training.clusters:
        clusters[step.points[others]] = spectral_labels(M.cpu().numpy(), training.clusters, generator)[others]
    return clusters


def _identity(training: Reversal, phases: Sequence[Phase]) -> str:
    """Fingerprint of everything that determines the weights: the initial network, points, labels and links, and
    settings."""
    known = training.known
    settings = {field.name: getattr(training, field.name) for field in dataclasses.fields(training)[3:]}
    arrays = [known.groups, known.labels, known.apart.indptr, known.apart.indices, known.coarse]
    tensors = [training.inputs, *training.network.state_dict().values()]
    arrays += [tensor.detach().cpu().contiguous().numpy() for tensor in tensors]
    stored = [np.ascontiguousarray(array).reshape(-1).view(np.uint8).data for array in arrays if array.size]
    return fingerprint(RECIPE, repr(training.network), repr(settings), repr(tuple(phases)), *stored)
