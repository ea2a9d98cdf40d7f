"""A step of ultimate layer reversal: the last, linear layer is solved for in closed form.

A step draws a batch, computes its equivalence matrix M without gradients (by balancing or from pseudo-labels), and
takes a gradient step on F(Phi(V); M) with respect to the parameters V of the network (XSDC, Jones, Roulet and
Harchaoui, Algorithms 2 and 3). If all labels are known, M is known, and the method is ridge classification with a
learned representation; if no labels are known, the method is clustering.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from clustering.constraints import Constraints
from clustering.deep.xsdc.assignments import (
    by_eigenvectors,
    by_labels,
    by_pseudo_labels,
    deep_labels,
    drawn_by_cluster,
    eigenvector_labels,
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
from clustering.foundation.errors import InputError
from clustering.foundation.parameters import Above, AtLeast, Validated
from clustering.foundation.streams import stream

_BLOCK = 1024
"""Number of inputs whose features are computed at a time."""

UNLABELLED_PENALTY = 0.1
"""Penalty if no labels determine one. With a small penalty the features follow the initial M."""

Assignment = Literal["balancing", "pseudo_labels", "deep_clustering", "eigenvectors", "eigenvectors_kmeans"]


@dataclass(frozen=True)
class Solver(Validated):
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
