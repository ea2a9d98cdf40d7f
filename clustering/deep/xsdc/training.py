"""Training by ultimate layer reversal: each step solves for the last, linear layer in closed form.

A step draws a batch, computes its equivalence matrix M without gradients (by balancing or from pseudo-labels), and
takes a gradient step on F(Phi(V); M) with respect to the parameters V of the network (XSDC, Jones, Roulet and
Harchaoui, Algorithms 2 and 3). If all labels are known, M is known, and the method is ridge classification with a
learned representation; if no labels are known, the method is clustering.

A training is a sequence of phases, with curves, and a state from which it can resume. It does not use Lightning: a
batch combines labelled points, linked points with their partners and a sample of the other points, which data loaders
do not support; each network defines its own optimiser; and M depends on the whole batch, so that a batch cannot be
split between devices.
"""

import dataclasses
import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.metrics import pairwise_distances_argmin
from torch import Tensor

from clustering.constraints import Constraints
from clustering.deep.xsdc.assignments import (
    DeepClustering,
    by_eigenvectors,
    by_labels,
    by_pseudo_labels,
    deep_labels,
    eigenvector_labels,
    spectral_labels,
)
from clustering.deep.xsdc.balancing import balance
from clustering.deep.xsdc.batches import Batch, batches, labelled_points
from clustering.deep.xsdc.copies import Copies
from clustering.deep.xsdc.discriminative import (
    discriminative_objective,
    dissimilarity,
    eigengap,
    normalised_features,
    ridge_objective,
)
from clustering.files.torch_files import resumable, save_state
from clustering.foundation.errors import InputError
from clustering.foundation.fingerprint import fingerprint
from clustering.foundation.progress import Advance, Log, Observe
from clustering.foundation.streams import stream

RECIPE = 4
"""Version of the training code, to be increased when a change leads to different weights or another state."""

STATE = "last.ckpt"
_KEEP = 20
"""Number of steps between writes of the state; the state is also written after the last step of a phase."""

_WATCH = 10
"""Number of steps between points of the training curves."""


_GAIN = 0.03
"""Relative decrease of F that steps on pseudo-labels must achieve."""


Assignment = Literal["balancing", "pseudo_labels", "deep_clustering", "eigenvectors", "eigenvectors_kmeans"]

Kind = Literal["supervised", "assigned"]
"""Steps on labelled points only, or on all points."""

_BLOCK = 1024
"""Number of inputs whose features are computed at a time."""


class BatchStep(NamedTuple):
    """Values of a step, computed before the update of the parameters.

    Attributes:
        objective: F of the batch. For known labels, F is the loss of a regression including the penalty, and >= 0. For
            a computed M, F may be negative, since M may be indefinite and differ from Y Y^T for every Y.
        residual: number of points by which a cluster size violates its bounds after balancing; 0 if M is known.
        points: (n,) indices of the points of the batch; copies have the index of their point.
        features: (n, D) normalised features, without gradients.
        equivalence: (n, n) M; None if all labels are known.
        eigengap: gap between the eigenvalues K and K + 1 of A; NaN if all labels are known.
    """

    objective: float
    residual: float
    points: NDArray[np.int64]
    features: Tensor
    equivalence: Tensor | None = None
    eigengap: float = math.nan


@dataclass(frozen=True)
class Reversal:
    """Points, their labels and links, and a network to be trained so that its features separate the clusters.

    Attributes:
        network: a `clustering.deep.xsdc.networks.Network`.
        inputs: (N, …) inputs of the network.
        known: labels and links of the N points.
        clusters: K.
        min_share: minimum size of a cluster, as a share of a batch.
        max_share: maximum size of a cluster, as a share of a batch.
        rounds: number of iterations of matrix balancing.
        assignment: method that computes M: "balancing", or a method of `assignments`, which ignores the bounds.
        copies: augmentation of the points of a batch without label and links; None for no copies.
        deep: clusters of all points, for the steps of the method "deep_clustering".
        seed: seed of K-means in `equivalence`.
    """

    network: Any
    inputs: Tensor
    known: Constraints
    clusters: int
    min_share: float
    max_share: float
    rounds: int = 10
    assignment: Assignment = "balancing"
    copies: Copies | None = None
    deep: DeepClustering | None = None
    seed: int = 0

    @property
    def labelled(self) -> NDArray[np.int64]:
        """(l,) indices of points with known labels."""
        return np.flatnonzero(self.known.labels >= 0)

    @property
    def others(self) -> NDArray[np.int64]:
        """(N - l,) indices of points with unknown labels."""
        return np.flatnonzero(self.known.labels < 0)

    def targets(self, points: NDArray[np.int64]) -> Tensor:
        """(n, K) one-hot labels of labelled points."""
        labels = torch.from_numpy(self.known.labels[points]).to(self.inputs.device)
        return torch.nn.functional.one_hot(labels, self.clusters).double()

    def steps(
        self,
        kind: Kind,
        penalty: float,
        optimizer: torch.optim.Optimizer,
        size: int,
        generator: np.random.Generator,
        *,
        done: int = 0,
    ) -> Iterator[BatchStep]:
        """Infinite sequence of steps, without the first `done`: "supervised" ones on batches of at most `size` labelled
        points, or "assigned" ones on batches of at most 2 `size` points with labels or links and of others, including
        copies."""
        if kind == "supervised":
            for number, points in enumerate(islice(labelled_points(self.known.labels, size, generator), done, None)):
                where = f"supervised step {done + number + 1}"
                features = self._features(self._of(points), where)
                value = ridge_objective(features, self.targets(points), penalty)
                _move(value, optimizer, where)
                yield BatchStep(float(value.detach()), 0.0, points, features.detach())
            return
        for number, drawing in enumerate(islice(self.batches(size, generator), done, None), start=done + 1):
            if self.deep is not None:
                self.deep.at(number, lambda: self.raw_features(self.inputs))
                free = np.flatnonzero(~self.known.constrained)
                drawing = drawing._replace(others=self.deep.drawn(free, len(drawing.others), number))
            batch, others = drawing.copied(self._times), self._of(drawing.others)
            # Each part is divided by its own mean norm, as in the authors' code.
            parts = [self._of(batch.known), others if self.copies is None else self.copies.of(others, number)]
            where = f"step {number} on all points"
            features = torch.cat([self._features(part, where) for part in parts if len(part)])
            labels = None if self.deep is None else self.deep.labels
            equivalence, residual = self.equivalence(features, batch.points, penalty, labels)
            value = discriminative_objective(features, equivalence, penalty)
            gap = eigengap(features.detach(), penalty, self.clusters)
            _move(value, optimizer, where)
            yield BatchStep(float(value.detach()), residual, batch.points, features.detach(), equivalence, gap)

    def batches(self, size: int, generator: np.random.Generator) -> Iterator[Batch]:
        """Infinite sequence of batches of at most 2 `size` points, including the copies that will be made."""
        share = self.max_share if self.assignment == "balancing" else 1.0
        return batches(self.known, size, generator, max_share=share, copies=self._times)

    def equivalence(
        self, features: Tensor, points: NDArray[np.int64], penalty: float, labels: NDArray[np.int64] | None = None
    ) -> tuple[Tensor, float]:
        """(n, n) M of these points, computed from their features (n, D), and its residual.

        If known entries contradict the bounds on cluster sizes, the bounds are widened, since the size of a cluster in
        a batch is partly random.

        Args:
            features: (n, D).
            points: (n,) indices of the points.
            penalty: penalty of the regression, for balancing.
            labels: (N,) clusters of all points, of which M is then made; None: those of the method.
        """
        count = len(points)
        if self.assignment == "pseudo_labels":
            return by_pseudo_labels(features.detach(), self.known.only(points), self.clusters), 0.0
        known = self.known.among(points, features.device)
        if labels is not None:
            return by_labels(labels[points], known), 0.0
        if self.assignment == "eigenvectors":
            return by_eigenvectors(features.detach(), known, self.clusters), 0.0
        if self.assignment in ("eigenvectors_kmeans", "deep_clustering"):
            found = eigenvector_labels if self.assignment == "eigenvectors_kmeans" else deep_labels
            return by_labels(found(features.detach(), self.clusters, stream(self.seed, self.assignment)), known), 0.0
        sums, fully_known = known.values.sum(1), known.mask.all(1)
        high, low = max(self.max_share * count, float(sums.max())), self.min_share * count
        if bool(fully_known.any()):
            low = min(low, float(sums[fully_known].min()))
        A, reference = dissimilarity(features, penalty), 1 / self.clusters
        M, residual = balance(A, known.mask, known.values, low, high, rounds=self.rounds, reference=reference)
        return M, float(residual)

    def loss(self, points: NDArray[np.int64], penalty: float) -> float:
        """F of these points for their M, without a step."""
        features = self.features(self._of(points))
        return float(discriminative_objective(features, self.equivalence(features, points, penalty)[0], penalty))

    def features(self, inputs: Tensor, scale: Tensor | None = None) -> Tensor:
        """(n, D) features of inputs (n, …) without gradients, normalised by `scale` or by their own mean norm."""
        raw = self.raw_features(inputs)
        return normalised_features(raw, scale)

    def raw_features(self, inputs: Tensor) -> Tensor:
        """(n, D) outputs of the network for inputs (n, …), computed in blocks."""
        with torch.no_grad():
            return torch.cat([self.network(inputs[i : i + _BLOCK]) for i in range(0, len(inputs), _BLOCK)])

    @property
    def _times(self) -> int:
        return 1 if self.copies is None else self.copies.count

    def _of(self, points: NDArray[np.int64]) -> Tensor:
        """(n, …) inputs of points."""
        return self.inputs[torch.from_numpy(points).to(self.inputs.device)]

    def _features(self, inputs: Tensor, where: str) -> Tensor:
        features = normalised_features(self.network(inputs))
        if not bool(features.isfinite().all()):
            raise _diverged("features are", where)
        return features


def _move(value: Tensor, optimizer: torch.optim.Optimizer, where: str) -> None:
    """Take one step of the optimiser.

    Raises:
        InputError: the loss, gradients or new parameters are not finite; the network keeps its parameters.
    """
    moved = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    optimizer.zero_grad(set_to_none=True)
    value.backward()  # type: ignore[no-untyped-call]
    if not _finite([value, *(parameter.grad for parameter in moved if parameter.grad is not None)]):
        raise _diverged("the loss or its gradient is", where)
    before = [parameter.detach().clone() for parameter in moved]
    optimizer.step()
    if not _finite(moved):
        with torch.no_grad():
            for parameter, old in zip(moved, before, strict=True):
                parameter.copy_(old)
        raise _diverged("weights are", where)


def _finite(tensors: list[Tensor]) -> bool:
    return bool(torch.stack([tensor.detach().isfinite().all() for tensor in tensors]).all())


def _diverged(quantity: str, where: str) -> InputError:
    return InputError(
        f"training diverged: {quantity} not finite at {where} (the last saved state is kept); lower the step size"
    )


class Phase(NamedTuple):
    """Consecutive steps of one kind.

    Attributes:
        kind: "supervised" for steps on labelled points only, "assigned" for steps on all points.
        steps: number of steps.
        step_size: step size of the network's optimiser.
        falling: whether the step size decreases along half a cosine, from `step_size` at the first step towards 0 after
            the last; else it is constant.
    """

    kind: Kind
    steps: int
    step_size: float
    falling: bool = False

    def size(self, done: int) -> float:
        """Step size after `done` steps, as a share of the initial step size."""
        return (1 + math.cos(math.pi * done / self.steps)) / 2 if self.falling else 1.0


class TrainedPhases(NamedTuple):
    """Result of `train`; the network is trained in place.

    Attributes:
        trace: (steps,) F of each batch, see `BatchStep`.
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
        penalty: the ridge penalty, or a function that returns it at the start of each phase.
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
        InputError: the state belongs to another training, or a step size is too large, so that values are no longer
            finite (the message names the step).

    Warns:
        UserWarning: the state is damaged, so the training starts from the beginning.
    """
    network = training.network
    identity = (
        ""
        if folder is None
        else _identity(training, (tuple(phases), "chosen" if callable(penalty) else penalty, decay, batch_size, seed))
    )
    state = None if folder is None else resumable(folder / STATE, identity, warnings.warn)
    trace: list[tuple[float, ...]] = [] if state is None else [tuple(row) for row in state["trace"].tolist()]
    resumed_at, before = len(trace), 0
    if state is not None:
        network.load_state_dict(state["network"])
        if training.deep is not None and state["labels"] is not None:
            training.deep.labels = state["labels"].numpy()
        if advance is not None:
            advance(resumed_at)
    start = _copied(network) if state is None else state["start"]
    for number, phase in enumerate(phases):
        completed, last = max(resumed_at - before, 0), before + phase.steps
        if completed < phase.steps:
            start = start if completed else _copied(network)
            optimizer = network.optimizer(phase.step_size, decay)
            sizes = [group["lr"] for group in optimizer.param_groups]
            if state is not None and completed:
                optimizer.load_state_dict(state["optimizer"])
                weight = float(state["penalty"])
            else:
                weight = penalty() if callable(penalty) else penalty
            drawn = stream(seed, "batches", number)
            steps = training.steps(phase.kind, weight, optimizer, batch_size, drawn, done=completed)
            while len(trace) < last:
                for group, size in zip(optimizer.param_groups, sizes, strict=True):
                    group["lr"] = size * phase.size(len(trace) - before)
                step = next(steps)
                trace.append((step.objective, step.residual, step.eigengap))
                if advance is not None:
                    advance(1, loss=step.objective)
                if log is not None and (len(trace) % _WATCH == 0 or len(trace) == last):
                    log.metrics(_seen(training, step, observe, stream(seed, "curves", len(trace))), len(trace))
                if folder is not None and (len(trace) % _KEEP == 0 or len(trace) == last):
                    labels = None if training.deep is None else training.deep.labels
                    state = {
                        "identity": identity,
                        "network": network.state_dict(),
                        "labels": None if labels is None else torch.from_numpy(labels),
                        "start": start,
                        "optimizer": optimizer.state_dict(),
                        "penalty": weight,
                        "trace": torch.tensor(trace, dtype=torch.float64),
                    }
                    save_state(folder / STATE, state)
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


def _identity(training: Reversal, settings: tuple[object, ...]) -> str:
    """Fingerprint of everything that determines the weights: the initial network, points, labels and links, and
    settings."""
    known, own = training.known, [field.name for field in dataclasses.fields(training)]
    of_training = {name: getattr(training, name) for name in own if name not in ("network", "inputs", "known")}
    arrays = [known.groups, known.labels, known.apart.indptr, known.apart.indices, known.coarse]
    tensors = [training.inputs, *training.network.state_dict().values()]
    arrays += [tensor.detach().cpu().contiguous().numpy() for tensor in tensors]
    stored = [np.ascontiguousarray(array).reshape(-1).view(np.uint8).data for array in arrays if array.size]
    return fingerprint(RECIPE, repr(training.network), repr(of_training), repr(settings), *stored)
