"""Training by ultimate layer reversal: each step solves for the last, linear layer in closed form.

A step draws a batch, computes its equivalence matrix M without gradients (by balancing or from pseudo-labels), and
takes a gradient step on F(Phi(V); M) with respect to the parameters V of the network (XSDC, Jones, Roulet and
Harchaoui, Algorithms 2 and 3). If all labels are known, M is known, and the method is ridge classification with a
learned representation; if no labels are known, the method is clustering.

This is a plain loop and not a Lightning module. With Lightning, a step on 100 labelled digits takes 2.6 ms instead of
1.8, one on batches of 2 x 256 digits a tenth more than 10 ms, and one on large batches as long. Its import takes more
than 2.4 s, and a whole fit of digits 1 to 3 s.
"""

import dataclasses
import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, islice
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from sklearn.metrics import pairwise_distances_argmin
from torch import Tensor
from torch.optim.lr_scheduler import LambdaLR

from clustering.constraints import Constraints
from clustering.deep.xsdc.assignments import (
    by_eigenvectors,
    by_labels,
    by_pseudo_labels,
    deep_labels,
    drawn_by_cluster,
    eigenvector_labels,
    spectral_labels,
)
from clustering.deep.xsdc.balancing import balance
from clustering.deep.xsdc.batches import Batch, batches, labelled_points, with_copies
from clustering.deep.xsdc.discriminative import (
    best_penalty,
    discriminative_objective,
    dissimilarity,
    eigengap,
    normalised_features,
    ridge_objective,
)
from clustering.files.torch_files import resumable, save_state
from clustering.foundation.errors import InputError
from clustering.foundation.fingerprint import fingerprint
from clustering.foundation.parameters import Above, AtLeast, validate
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

_BLOCK = 1024
"""Number of inputs whose features are computed at a time."""

UNLABELLED_PENALTY = 0.1
"""Penalty if no labels determine one. With a small penalty the features follow the initial M."""

Assignment = Literal["balancing", "pseudo_labels", "deep_clustering", "eigenvectors", "eigenvectors_kmeans"]


@dataclass(frozen=True)
class Solver:
    """How XSDC takes its steps, and fits its last classifier.

    Attributes:
        step_size: step size of the network's own rule: along the sphere, almost an angle in radians ("linear",
            "lenet5", "ckn_gm"); factor of the gradient ("kernel"); learning rate of Adam ("perceptron"). None uses
            `usual_step` of the network: 0.1 for "linear", 0.5 for "ckn_gm", 1 for "kernel", 2^-6 for "lenet5" and 0.001
            for "perceptron".
        supervised_step_size: step size on labelled points only; None uses step_size.
        schedule: "falling" decreases the step size on all points to 0 along half a cosine; "constant" as in the paper.
        decay: weight of the squared parameters, except of those on a sphere.
        batch_size: maximum size of each half of a batch: labelled and linked points, and points without labels or
            links, see `clustering.deep.xsdc.batches`.
        copies: number of versions of each unlabelled point in a batch, the point itself and augmented copies that are
            known to share its cluster; batch_size counts all of them. Rows must be square grey images, which are
            rotated, scaled, shifted and partly erased. 1 makes no copies.
        rounds: number of rounds of balancing.
        deep_clusters: number of clusters of K-means for "deep_clustering"; None is n_clusters. The paper has K to 32 K.
        deep_steps: number of steps from one K-means to the next for "deep_clustering".
        classifier: final classifier if every cluster has labels: "nearest" is fitted to all points, as in the paper,
            "labelled" to labelled points only, and "auto" takes the one with the lower error, see `final_classifier`.
    """

    step_size: Annotated[float, Above(0)] | None = None
    supervised_step_size: Annotated[float, Above(0)] | None = None
    schedule: Literal["falling", "constant"] = "falling"
    decay: Annotated[float, AtLeast(0)] = 0.0
    batch_size: Annotated[int, AtLeast(2)] = 1024
    copies: Annotated[int, AtLeast(1)] = 1
    rounds: Annotated[int, AtLeast(1)] = 10
    deep_clusters: Annotated[int, AtLeast(1)] | None = None
    deep_steps: Annotated[int, AtLeast(1)] = 50
    classifier: Literal["auto", "nearest", "labelled"] = "auto"

    def __post_init__(self) -> None:
        validate(self)


class BatchStep(NamedTuple):
    """Values of a step, computed before the update of the parameters.

    Attributes:
        objective: F of the batch. For known labels, F is the loss of a regression including the penalty, and >= 0. For
            a computed M, F may be negative, since M may be indefinite and differ from Y Y^T for every Y.
        residual: number of points by which a cluster size violates its bounds; 0 if nothing is balanced.
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


@dataclass
class Reversal:
    """Points, their labels and links, and a network to be trained so that its features separate the clusters.

    Attributes:
        network: a `clustering.deep.xsdc.networks.Network`.
        inputs: (N, …) inputs of the network.
        known: labels and links of the N points.
        clusters: K.
        bounds: minimum and maximum size of a cluster, as shares of a batch.
        assignment: method that computes M: "balancing", or a method of `assignments`, which ignores the bounds.
        penalty: the ridge penalty; None: the best on labelled points, see `weight`.
        solver: settings of the steps.
        seed: seed of the batches, copies and K-means.
        deep: (N,) clusters of all points at the last K-means of "deep_clustering"; None before the first.
    """

    network: Any
    inputs: Tensor
    known: Constraints
    clusters: int
    bounds: tuple[float, float]
    assignment: Assignment = "balancing"
    penalty: float | None = None
    solver: Solver = Solver()
    seed: int = 0
    deep: NDArray[np.int64] | None = None

    @property
    def labelled(self) -> NDArray[np.int64]:
        """(l,) indices of points with known labels."""
        return np.flatnonzero(self.known.labels >= 0)

    @property
    def all_labelled(self) -> bool:
        """Whether every cluster has a labelled point."""
        return len(np.unique(self.known.labels[self.labelled])) == self.clusters

    def targets(self, points: NDArray[np.int64]) -> Tensor:
        """(n, K) one-hot labels of labelled points."""
        labels = torch.from_numpy(self.known.labels[points])
        return torch.nn.functional.one_hot(labels, self.clusters).double().to(self.inputs.device)

    def weight(self) -> float:
        """The penalty, or the largest of the penalties that are best on held-out labelled points."""
        if self.penalty is not None:
            return float(self.penalty)
        points = self.labelled
        if len(np.unique(self.known.labels[points])) < min(2, self.clusters) or len(points) < 2:
            return UNLABELLED_PENALTY
        return best_penalty(normalised_features(raw_features(self.network, self._of(points))), self.targets(points))

    def steps(
        self,
        kind: Literal["supervised", "assigned"],
        penalty: float,
        optimizer: torch.optim.Optimizer,
        generator: np.random.Generator,
        *,
        done: int = 0,
    ) -> Iterator[BatchStep]:
        """Infinite sequence of steps, without the first `done`: "supervised" ones on batches of at most `batch_size`
        labelled points, or "assigned" ones on batches of at most twice as many points with labels or links and of
        others, including copies."""
        if kind == "supervised":
            labelled = labelled_points(self.known.labels, self.solver.batch_size, generator)
            for number, points in enumerate(islice(labelled, done, None), start=done + 1):
                where = f"supervised step {number}"
                features = self._features([self._of(points)], where)
                value = ridge_objective(features, self.targets(points), penalty)
                _move(value, optimizer, where)
                yield BatchStep(float(value.detach()), 0.0, points, features.detach())
        for number, batch in enumerate(islice(self.batches(generator), done, None), start=done + 1):
            where = f"step {number} on all points"
            if self.assignment == "deep_clustering":
                batch = batch._replace(others=self._drawn_by_cluster(len(batch.others), number))
            others = with_copies(self._of(batch.others), self.solver.copies, self.seed, number)
            # Each part is divided by its own mean norm, as in the authors' code.
            features = self._features([part for part in (self._of(batch.known), others) if len(part)], where)
            points = batch.copied(self.solver.copies).points
            equivalence, residual = self.equivalence(features, points, penalty, self.deep)
            value = discriminative_objective(features, equivalence, penalty)
            gap = eigengap(features.detach(), penalty, self.clusters)
            _move(value, optimizer, where)
            yield BatchStep(float(value.detach()), residual, points, features.detach(), equivalence, gap)

    def batches(self, generator: np.random.Generator, size: int | None = None) -> Iterator[Batch]:
        """Infinite sequence of batches of at most 2 `size` points, including the copies that will be made."""
        share = self.bounds[1] if self.assignment == "balancing" else 1.0
        size = self.solver.batch_size if size is None else size
        return batches(self.known, size, generator, max_share=share, copies=self.solver.copies)

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
        count, features = len(points), features.detach()
        if self.assignment == "pseudo_labels":
            return by_pseudo_labels(features, self.known.only(points), self.clusters), 0.0
        known = self.known.among(points, features.device)
        if labels is not None:
            return by_labels(labels[points], known), 0.0
        if self.assignment == "eigenvectors":
            return by_eigenvectors(features, known, self.clusters), 0.0
        if self.assignment != "balancing":
            found = eigenvector_labels if self.assignment == "eigenvectors_kmeans" else deep_labels
            return by_labels(found(features, self.clusters, stream(self.seed, self.assignment)), known), 0.0
        sums, fully_known = known.values.sum(1), known.mask.all(1)
        low, high = self.bounds[0] * count, max(self.bounds[1] * count, float(sums.max()))
        if bool(fully_known.any()):
            low = min(low, float(sums[fully_known].min()))
        A, rounds = dissimilarity(features, penalty), self.solver.rounds
        return balance(A, known.mask, known.values, low, high, rounds=rounds, reference=1 / self.clusters)

    def loss(self, points: NDArray[np.int64], penalty: float) -> float:
        """F of these points for their M, without a step."""
        features = normalised_features(raw_features(self.network, self._of(points)))
        return float(discriminative_objective(features, self.equivalence(features, points, penalty)[0], penalty))

    def _of(self, points: NDArray[np.int64]) -> Tensor:
        """(n, …) inputs of points."""
        return self.inputs[torch.from_numpy(points).to(self.inputs.device)]

    def _features(self, parts: Sequence[Tensor], where: str) -> Tensor:
        features = torch.cat([normalised_features(self.network(part)) for part in parts])
        if not bool(features.isfinite().all()):
            raise _diverged("features are", where)
        return features

    def _drawn_by_cluster(self, count: int, number: int) -> NDArray[np.int64]:
        """So many points without label or link for a step; K-means is repeated before, where its turn has come."""
        if self.deep is None or (number - 1) % self.solver.deep_steps == 0:
            clusters, draws = self.solver.deep_clusters or self.clusters, stream(self.seed, "deep clustering", number)
            self.deep = deep_labels(raw_features(self.network, self.inputs), clusters, draws, starts=1)
        free = np.flatnonzero(~self.known.constrained)
        return drawn_by_cluster(free, self.deep, count, stream(self.seed, "deep batches", number))


def raw_features(network: Any, inputs: Tensor) -> Tensor:
    """(n, D) outputs of a network for inputs (n, …), computed in blocks."""
    with torch.no_grad():
        return torch.cat([network(inputs[i : i + _BLOCK]) for i in range(0, len(inputs), _BLOCK)])


def _move(value: Tensor, optimizer: torch.optim.Optimizer, where: str) -> None:
    """Take one step of the optimiser.

    Raises:
        InputError: the loss, gradients or new parameters are not finite; the network keeps its parameters.
    """
    moved = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    before = [parameter.detach().clone() for parameter in moved]
    optimizer.zero_grad(set_to_none=True)
    value.backward()  # type: ignore[no-untyped-call]
    slopes = [parameter.grad for parameter in moved if parameter.grad is not None]
    optimizer.step()
    if not bool(torch.stack([part.detach().isfinite().all() for part in (value, *slopes, *moved)]).all()):
        with torch.no_grad():
            for parameter, old in zip(moved, before, strict=True):
                parameter.copy_(old)
        raise _diverged("the loss, its gradient or the weights are", where)


def _diverged(quantity: str, where: str) -> InputError:
    return InputError(
        f"training diverged: {quantity} not finite at {where} (the last saved state is kept); lower the step size"
    )


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
