"""Training features by ultimate layer reversal: the last, linear layer is solved for in every step, in closed form.

A step draws a batch, finds its equivalence matrix M without gradients (balanced, or of pseudo-labels), and goes down
the gradient of F(Phi(V); M) by the parameters V of the network (XSDC, Jones, Roulet and Harchaoui, Algorithms 2 and 3).
With all labels known M is, and it is ridge classification with a learned representation; with none it is clustering.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from clustering.deep.xsdc.balancing import balance
from clustering.deep.xsdc.batches import Batch, batches, labelled_points
from clustering.deep.xsdc.constraints import Constraints
from clustering.deep.xsdc.copies import Copies
from clustering.deep.xsdc.discriminative import (
    discriminative_objective,
    dissimilarity,
    normalised_features,
    ridge_objective,
)
from clustering.deep.xsdc.other_assignments import by_eigenvectors, by_pseudo_labels
from clustering.foundation.errors import InputError

Assignment = Literal["balancing", "pseudo_labels", "eigenvectors"]

_BLOCK = 1024
"""Inputs whose features are computed at a time."""


class Diverged(InputError):
    """Training left the range of numbers; the network is as it was before the step that is refused.

    Attributes:
        step: that could not be taken, from 1.
        what: is not finite.
    """

    def __init__(self, step: int, what: str) -> None:
        super().__init__(f"training broke off at step {step}: {what} not finite any more; lower the step size")
        self.step, self.what = step, what


class Step(NamedTuple):
    """What a step saw, before it moved.

    Attributes:
        objective: F of the batch. Of labels it is the loss of a regression, penalty included, and not below 0; of an M
            that was found it may be, as that need not be the Y Y^T of any Y, nor positive semi-definite.
        residual: by how many points a cluster's size was outside its bounds after balancing; 0 where all is known.
        points: (n,) row numbers of the batch; of copies of a point that of the point.
        features: (n, D) normalised, without gradients.
        equivalence: (n, n) M; None where all labels are known.
    """

    objective: float
    residual: float
    points: NDArray[np.int64]
    features: Tensor
    equivalence: Tensor | None = None


@dataclass(frozen=True)
class Reversal:
    """Points, what is known of them, and a network whose features are to tell their clusters apart.

    Attributes:
        network: a `clustering.deep.xsdc.vector_networks.Network`.
        inputs: (N, …) what it takes.
        known: labels and links of the N points.
        clusters: K.
        min_share: least size of a cluster, as a share of a batch.
        max_share: greatest.
        rounds: of matrix balancing.
        assignment: how M is found: "balancing", or as in `other_assignments`, which know no bounds.
        copies: what is made of each point of a batch of which nothing is known, as one of that many.
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

    @property
    def labelled(self) -> NDArray[np.int64]:
        """(l,) points of known label."""
        return np.flatnonzero(self.known.labels >= 0)

    @property
    def others(self) -> NDArray[np.int64]:
        """(N - l,) points of unknown label."""
        return np.flatnonzero(self.known.labels < 0)

    def targets(self, points: NDArray[np.int64]) -> Tensor:
        """(n, K) one-hot labels of points that have one."""
        labels = torch.from_numpy(self.known.labels[points]).to(self.inputs.device)
        return torch.nn.functional.one_hot(labels, self.clusters).double()

    def supervised(
        self,
        penalty: float,
        optimizer: torch.optim.Optimizer,
        size: int,
        generator: np.random.Generator,
        *,
        done: int = 0,
    ) -> Iterator[Step]:
        """Endless steps on labelled points alone, `size` at a time at most; those after the first `done`."""
        drawn = labelled_points(self.known.labels, size, generator)
        for number, points in enumerate(islice(drawn, done, None), start=done + 1):
            features = self._features(self._of(points), number)
            value = ridge_objective(features, self.targets(points), penalty)
            self._move(value, optimizer, number)
            yield Step(float(value.detach()), 0.0, points, features.detach())

    def assigned(
        self,
        penalty: float,
        optimizer: torch.optim.Optimizer,
        size: int,
        generator: np.random.Generator,
        *,
        done: int = 0,
    ) -> Iterator[Step]:
        """Endless steps on points of which something is known and on others, 2 `size`, copies counted, at a time at
        most; those after the first `done`."""
        drawn = self.batches(size, generator)
        for number, drawing in enumerate(islice(drawn, done, None), start=done + 1):
            batch, others = drawing.copied(self._times), self._of(drawing.others)
            # Each part is divided by its own mean length, as in the authors' code.
            parts = [self._of(batch.known), others if self.copies is None else self.copies.of(others, number)]
            features = torch.cat([self._features(part, number) for part in parts if len(part)])
            equivalence, residual = self.equivalence(features, batch.points, penalty)
            value = discriminative_objective(features, equivalence, penalty)
            self._move(value, optimizer, number)
            yield Step(float(value.detach()), residual, batch.points, features.detach(), equivalence)

    def batches(self, size: int, generator: np.random.Generator) -> Iterator[Batch]:
        """Endless batches of 2 `size` points at most; of each of the others there will be copies."""
        share = self.max_share if self.assignment == "balancing" else 1.0
        return batches(self.known, size, generator, max_share=share, copies=self._times)

    def equivalence(self, features: Tensor, points: NDArray[np.int64], penalty: float) -> tuple[Tensor, float]:
        """(n, n) M of these points by their features (n, D), and its residual.

        Where more of these points, or fewer, are known to be in one cluster than its bounds allow, these are widened:
        what a batch has of a cluster is in part chance.
        """
        count = len(points)
        if self.assignment == "pseudo_labels":
            return by_pseudo_labels(features.detach(), self.known.only(points), self.clusters), 0.0
        known = self.known.among(points, features.device)
        if self.assignment == "eigenvectors":
            return by_eigenvectors(features.detach(), known, self.clusters), 0.0
        sums, whole = known.values.sum(1), known.mask.all(1)
        high = max(self.max_share * count, float(sums.max()))
        low = min(self.min_share * count, float(sums[whole].min())) if bool(whole.any()) else self.min_share * count
        found = balance(
            dissimilarity(features, penalty), known.mask, known.values, low, high, rounds=self.rounds,
            reference=1 / self.clusters,
        )  # fmt: skip
        return found.equivalence, float(found.residual)

    def loss(self, points: NDArray[np.int64], penalty: float) -> float:
        """F of these points and the M that they have, without a step."""
        features = self.features(self._of(points))
        return float(discriminative_objective(features, self.equivalence(features, points, penalty)[0], penalty))

    def check_sizes(self, size: int) -> None:
        """See before training whether a cluster may have as many points in a batch as are copies of one.

        Raises:
            InputError: it may not.
        """
        if self.assignment != "balancing" or not len(self.others):
            return
        count = len(next(self.batches(size, np.random.default_rng(0))).copied(self._times).points)
        if self._times > self.max_share * count + 1e-9 * count:
            raise InputError(
                f"a cluster has at most {self.max_share * count:g} points of a batch of {count}, which is less than "
                f"the {self._times} that are one and its copies: take more at a time (batch_size)"
            )

    def features(self, inputs: Tensor, scale: Tensor | None = None) -> Tensor:
        """(n, D) normalised features of inputs (n, …), without gradients; by `scale`, or their own mean length."""
        raw = self.raw_features(inputs)
        return normalised_features(raw, scale)

    def raw_features(self, inputs: Tensor) -> Tensor:
        """(n, D) what the network makes of inputs (n, …), a block at a time."""
        with torch.no_grad():
            return torch.cat([self.network(inputs[i : i + _BLOCK]) for i in range(0, len(inputs), _BLOCK)])

    @property
    def _times(self) -> int:
        return 1 if self.copies is None else self.copies.count

    def _of(self, points: NDArray[np.int64]) -> Tensor:
        """(n, …) inputs of points."""
        return self.inputs[torch.from_numpy(points).to(self.inputs.device)]

    def _features(self, inputs: Tensor, number: int) -> Tensor:
        found = normalised_features(self.network(inputs))
        if not bool(found.isfinite().all()):
            raise Diverged(number, "features")
        return found

    def _move(self, value: Tensor, optimizer: torch.optim.Optimizer, number: int) -> None:
        """One step downhill. Where there is no slope to follow, or it leads nowhere, the network stays as it is.

        Raises:
            Diverged: at values that are not finite.
        """
        moved = [each for group in optimizer.param_groups for each in group["params"]]
        optimizer.zero_grad(set_to_none=True)
        value.backward()  # type: ignore[no-untyped-call]
        if not _finite([value, *(each.grad for each in moved if each.grad is not None)]):
            raise Diverged(number, "the loss or its slope")
        before = [each.detach().clone() for each in moved]
        optimizer.step()
        if not _finite(moved):
            with torch.no_grad():
                for each, old in zip(moved, before, strict=True):
                    each.copy_(old)
            raise Diverged(number, "weights")


def _finite(tensors: list[Tensor]) -> bool:
    return bool(torch.stack([each.detach().isfinite().all() for each in tensors]).all())
