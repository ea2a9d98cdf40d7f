"""A training by ultimate layer reversal as a whole: phases one after another, curves, and a state to go on from.

It is no Lightning module: a batch is labelled points, linked ones with their partners and a draw from the others, which
no loader and no share of a batch gives; steps have the network's own rule; and M is of the batch as a whole, so that
nothing could be spread over several devices.
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

from clustering.deep.linear_heads import FASTEST
from clustering.deep.settings import Advance, Log, Observe
from clustering.deep.xsdc.reversal import Diverged, Reversal, Step
from clustering.deep.xsdc.rounding import nearest_labels, spectral_labels
from clustering.files.training_state import resumable, save_state
from clustering.foundation.errors import InputError
from clustering.foundation.fingerprint import fingerprint
from clustering.foundation.streams import stream

RECIPE = 3
"""Of the training code: raise it with a change that gives other weights."""

STATE = "last.ckpt"
_KEEP = 20
"""Steps after which the state is written, at least."""

_WATCH = 10
"""Steps from one point of the curves to the next."""


_GAIN = 0.03
"""Share of F that steps on pseudo-labels have to gain."""


class Phase(NamedTuple):
    """Steps of one kind.

    Attributes:
        kind: "supervised", labelled points alone, or "assigned", all points.
        steps: how many.
        step_size: of the network's rule.
        falling: along half a cosine, from that of the first step towards 0 after the last; else all are of that size.
    """

    kind: Literal["supervised", "assigned"]
    steps: int
    step_size: float
    falling: bool = False

    def size(self, done: int) -> float:
        """Of the step after so many, as a share of the first one's."""
        return (1 + math.cos(math.pi * done / self.steps)) / 2 if self.falling else 1.0


class Trained(NamedTuple):
    """What a training came to; the network is trained in place.

    Attributes:
        trace: (steps,) F of every batch, see `clustering.deep.xsdc.reversal.Step`.
        residuals: (steps,) by how many points sizes were outside their bounds after balancing.
        resumed_at: steps that were found done.
        before: parameters and buffers of the network as they were before the last phase with steps.
    """

    trace: NDArray[np.float64]
    residuals: NDArray[np.float64]
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
) -> Trained:
    """Train the network, or go on after the last state that `folder` holds.

    A training that was interrupted and goes on gives the weights of one that was not, on the same machine with the
    same number of threads.

    Args:
        training: points and network, which has begun.
        phases: in order.
        penalty: the ridge penalty, or what is asked for it at the start of each phase.
        decay: of the network's rule.
        batch_size: half of the points of a batch, at most; see `clustering.deep.xsdc.batches`.
        seed: batches derive from it.
        folder: gets the state every twenty steps.
        log: takes of every tenth step, counted from 1 over all phases, and of the last of each, F of the batch: where
            labels say all, as supervised_loss; else as loss, with residual, entropy of M's rows (mean, in nats),
            smallest_cluster and largest_cluster (shares of the batch), and what `observe` gives.
        observe: looks at the clusters that points of the batch without label would have.
        advance: counts steps, also those that were found done.

    Raises:
        InputError: a state of another training; a step size or decay that no step can be taken with; values that are no
            longer finite, with the step; the last state stays.

    Warns:
        UserWarning: a damaged state, after which training begins anew.
    """
    for name, rate in [*(("step_size", phase.step_size) for phase in phases), ("decay", decay)]:
        if rate > FASTEST:
            raise InputError(f"{name}={rate:g} is too large for float32; use at most {FASTEST:g}")
    network = training.network
    identity = "" if folder is None else _identity(training, phases, penalty, decay, batch_size, seed)
    state = None if folder is None else resumable(folder / STATE, identity, warnings.warn)
    trace: list[tuple[float, float]] = [] if state is None else [tuple(row) for row in state["trace"].tolist()]
    resumed_at = len(trace)
    if state is not None:
        network.load_state_dict(state["network"])
    if advance is not None and resumed_at:
        advance(resumed_at)
    before, kept = 0, resumed_at
    start = _copied(network) if state is None else state["start"]
    for number, phase in enumerate(phases):
        done = min(max(resumed_at - before, 0), phase.steps)
        last = before + phase.steps
        if done < phase.steps:
            start = start if done else _copied(network)
            optimizer = network.optimizer(phase.step_size, decay)
            sizes = [group["lr"] for group in optimizer.param_groups]
            if state is not None and done:
                optimizer.load_state_dict(state["optimizer"])
                weight = float(state["penalty"])
            else:
                weight = penalty() if callable(penalty) else penalty
            kind = training.supervised if phase.kind == "supervised" else training.assigned
            steps = kind(weight, optimizer, batch_size, stream(seed, "batches", number), done=done)
            while len(trace) < last:
                for group, size in zip(optimizer.param_groups, sizes, strict=True):
                    group["lr"] = size * phase.size(len(trace) - before)
                step = _next(steps, before, folder, kept)
                trace.append((step.objective, step.residual))
                if advance is not None:
                    advance(1, loss=step.objective)
                if log is not None and (len(trace) % _WATCH == 0 or len(trace) == last):
                    log.metrics(_seen(training, step, observe, stream(seed, "curves", len(trace))), len(trace))
                if folder is not None and (len(trace) % _KEEP == 0 or len(trace) == last):
                    _keep(folder, identity, network, start, optimizer, weight, trace)
                    kept = len(trace)
        before = last
    told = np.array(trace, dtype=np.float64).reshape(-1, 2)
    return Trained(told[:, 0], told[:, 1], resumed_at, start)


def _copied(network: Any) -> dict[str, Tensor]:
    return {name: each.detach().clone() for name, each in network.state_dict().items()}


def kept(
    training: Reversal, before: Mapping[str, Tensor], points: NDArray[np.int64], penalty: Callable[[], float]
) -> bool:
    """Whether a training lowered F of these points enough; else the network is as `before` it again.

    Where clusters overlap, pseudo-labels gain next to nothing, and may lead away from what labels say.

    Args:
        training: with the network as it is after.
        before: parameters and buffers of the network.
        points: (n,) some of all points; M is found before and after.
        penalty: asked for once, with the network as it was before.
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


def _next(steps: Iterator[Step], before: int, folder: Path | None, kept: int) -> Step:
    """The next step, counted over all phases where it cannot be taken."""
    try:
        return next(steps)
    except Diverged as error:
        raise _broken(error.what, before + error.step, folder, kept) from error


def _broken(what: str, step: int, folder: Path | None, kept: int) -> InputError:
    where = f"; the state of step {kept} is kept in {folder}" if folder is not None and kept else ""
    return InputError(f"training broke off at step {step}: {what} not finite any more{where}; lower the step size")


def _seen(training: Reversal, step: Step, observe: Observe | None, generator: np.random.Generator) -> dict[str, float]:
    """What is said of a step."""
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


def _clusters(training: Reversal, step: Step, M: Tensor, generator: np.random.Generator) -> NDArray[np.int64]:
    """(N,) of points of the batch without label the cluster that they would have, -1 of all others."""
    found = np.full(len(training.inputs), -1, dtype=np.int64)
    known = training.known.labels[step.points]
    others = known < 0
    if len(np.unique(known[~others])) == training.clusters:
        features = step.features.cpu().numpy()
        found[step.points[others]] = nearest_labels(features[others], features[~others], known[~others])
    elif len(M) >= training.clusters:
        found[step.points[others]] = spectral_labels(M.cpu().numpy(), training.clusters, generator)[others]
    return found


def _keep(
    folder: Path,
    identity: str,
    network: Any,
    start: dict[str, Tensor],
    optimizer: Any,
    penalty: float,
    trace: list[Any],
) -> None:
    save_state(
        folder / STATE,
        {
            "identity": identity,
            "network": network.state_dict(),
            "start": start,
            "optimizer": optimizer.state_dict(),
            "penalty": penalty,
            "trace": torch.tensor(trace, dtype=torch.float64),
        },
    )


def _identity(
    training: Reversal, phases: Sequence[Phase], penalty: object, decay: float, batch_size: int, seed: int
) -> str:
    """Changes with all that the weights come from: the network as it begins, points, what is known of them, steps."""
    known = training.known
    settings = (
        RECIPE,
        training.clusters,
        training.min_share,
        training.max_share,
        training.rounds,
        training.assignment,
        training.copies,
        "chosen" if callable(penalty) else penalty,
        decay,
        batch_size,
    )
    arrays = [known.groups, known.labels, known.apart.indptr, known.apart.indices, known.coarse]
    tensors = [training.inputs, *training.network.state_dict().values()]
    arrays += [one.detach().cpu().contiguous().numpy() for one in tensors]
    stored = [np.ascontiguousarray(one).reshape(-1).view(np.uint8).data for one in arrays if one.size]
    return fingerprint(repr(training.network), repr(settings), repr(tuple(phases)), seed, *stored)
