"""Discriminative clustering methods as pairs of an assignment step and a loss, as frozen dataclasses of
hyper-parameters.

Their names are in the table of `clustering.deep`; to add one, write a class and add a line there. An assignment step
computes pseudo-labels (…, N, K) from log-probabilities, a prior over the classes, and the rows with known class; it is
not differentiated. A loss is a function of the log-probabilities of V views of the points (V, …, N, K), the first of
which is the unmodified points, and of the pseudo-labels of the first.
"""

import warnings
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, Protocol

import torch
from sklearn.exceptions import ConvergenceWarning
from torch import Tensor

from clustering.deep import losses
from clustering.deep.fair_pseudo_labels import em_pseudo_labels, exact_pseudo_labels
from clustering.foundation.parameters import Above, AtLeast, Validated, Within
from clustering.optimiser.alternation import Clamp
from clustering.optimiser.pseudo_labels import adm
from clustering.optimiser.transport import sinkhorn

Solver = Literal["em", "exact"]
Relabel = Literal["batch", "epoch"]
"""When pseudo-labels are computed: for each batch before its step, or for all points at the beginning of each epoch."""
LEAST_SMOOTHING = (
    0.01  # label smoothing of the reverse cross-entropy, as for correct labels in Figure 11 of Zhang and Boykov
)


class Objective(Protocol):
    """What a model is trained on.

    Attributes:
        takes_prior: whether the objective depends on the prior.

    An objective with `needs_labels` or `needs_views` cannot do without labelled points or augmented copies of points.
    """

    takes_prior: ClassVar[bool]

    def targets(self, log_p: Tensor, prior: Tensor, known: Clamp | None = None) -> Tensor | None:
        """(…, N, K) pseudo-labels from log-probabilities (…, N, K), without gradient; None if the method has none.

        Rows sum to one, and rows with known class are one-hot.

        Args:
            log_p: log-probabilities of the unmodified points.
            prior: (K,) expected shares of the clusters.
            known: (mask (N,), classes (N,)) of the rows with known class; classes are 0 elsewhere.
        """
        ...

    def loss(self, views: Tensor, targets: Tensor | None, prior: Tensor, known: Clamp | None = None) -> Tensor:
        """(…) loss of log-probabilities (V, …, N, K) of V views, the unmodified points first.

        It adds `error_of_known`. In a mean over all rows, a few rows with known class would hardly count, and the
        clusters would not get the names of these classes.
        """
        ...


@dataclass(frozen=True, kw_only=True)
class _Method(Validated):
    """A loss that is a value of its own, the error of the rows with known class, and the disagreement of views.

    Attributes:
        agreement: weight of the symmetric divergence between views.
    """

    takes_prior: ClassVar[bool] = True
    agreement: Annotated[float, AtLeast(0)] = 1.0

    def targets(self, log_p: Tensor, prior: Tensor, known: Clamp | None = None) -> Tensor | None:
        return None

    def loss(self, views: Tensor, targets: Tensor | None, prior: Tensor, known: Clamp | None = None) -> Tensor:
        value = self._value(views, targets, prior, known) + error_of_known(views, known)
        return value + self.agreement * disagreement(views)

    def _value(self, views: Tensor, targets: Tensor | None, prior: Tensor, known: Clamp | None) -> Tensor:
        """(…) value of its own; by default the cross-entropy with the pseudo-labels of the rows of unknown class."""
        assert targets is not None
        return losses.cross_entropy(views[0], targets, unknown(views, known))


@dataclass(frozen=True)
class Entropy(_Method):
    """Entropy clustering (Zhang and Boykov, eq. 42): reverse cross-entropy with pseudo-labels close to the predictions
    and without empty classes.

    Attributes:
        fairness: weight of KL(u || ybar); 100 in the paper.
        solver: "em" takes the paper's steps from the predictions up to the tolerance, which at weight 100 gives
            reweighted predictions. "exact" finds the minimiser up to `gap`, which trains worse: from random weights
            networks lose clusters, and linear heads reach a lower accuracy, because a rarely predicted class gets a few
            points with certainty instead of a share of many, and the loss is weighted by the predictions.
        tolerance: for em, largest change of a label in the last step.
        gap: for exact, largest distance of the objective from its minimum, as a share of 1 + fairness.

    Warns:
        ConvergenceWarning: em or exact stopped above the tolerance.
    """

    fairness: Annotated[float, AtLeast(0)] = 100.0
    solver: Solver = "em"
    tolerance: Annotated[float, Above(0)] = 1e-2
    gap: Annotated[float, Above(0)] = 1e-5

    def targets(self, log_p: Tensor, prior: Tensor, known: Clamp | None = None) -> Tensor:
        em = self.solver == "em"
        solve, name = (em_pseudo_labels, "tolerance") if em else (exact_pseudo_labels, "gap")
        solution = solve(log_p, self.fairness, prior, known=known, tolerance=getattr(self, name))
        if not bool(solution.converged.all()):  # the message is the same for all batches
            warnings.warn(
                f"pseudo-labels of a batch by {self.solver} did not converge to within {name} "
                f"({getattr(self, name):g}) in the maximum number of steps; the training continues with them; raise "
                f"{name}",
                ConvergenceWarning,
                stacklevel=2,
            )
        return solution.labels

    def _value(self, views: Tensor, targets: Tensor | None, prior: Tensor, known: Clamp | None) -> Tensor:
        assert targets is not None
        return losses.reverse_cross_entropy(views[0], targets, unknown(views, known))


@dataclass(frozen=True)
class MutualInformation(_Method):
    """MIGD (Bridle et al. 1991; RIM, Krause et al. 2010): gradient descent on the mean entropy and the divergence of
    the mean from the prior, without pseudo-labels.

    Attributes:
        fairness: weight of KL(pbar || u), which is log K - H(pbar) for a uniform prior.
        order: order of the Renyi entropy; 1 is the Shannon entropy.
    """

    fairness: Annotated[float, AtLeast(0)] = 1.0
    order: Annotated[float, Above(0)] = 1.0

    def _value(self, views: Tensor, targets: Tensor | None, prior: Tensor, known: Clamp | None) -> Tensor:
        spread = losses.tolerant_fairness(views[0].exp().mean(-2), prior)
        return losses.mean_entropy(views[0], self.order) + self.fairness * spread


@dataclass(frozen=True)
class IMSAT(_Method):
    """Information maximising self-augmented training (Hu et al. 2017), with views instead of adversarial perturbations.

    The loss is agreement + weight (mean entropy + marginal KL(pbar || u)).

    Attributes:
        weight: 0.1 in the public code, whose perturbations are far smaller than the views here. With 0.1, predictions
            stay nearly uniform here.
        marginal: 4 in the public code.
    """

    weight: Annotated[float, AtLeast(0)] = 1.0
    marginal: Annotated[float, AtLeast(0)] = 4.0

    def _value(self, views: Tensor, targets: Tensor | None, prior: Tensor, known: Clamp | None) -> Tensor:
        return self.weight * MutualInformation(fairness=self.marginal)._value(views, targets, prior, known)


@dataclass(frozen=True)
class IIC:
    """Invariant information clustering (Ji et al. 2019): mutual information between the classes of a point and of its
    views.

    It has no prior: its maximum is balanced.
    """

    takes_prior: ClassVar[bool] = False
    needs_views: ClassVar[bool] = True

    def targets(self, log_p: Tensor, prior: Tensor, known: Clamp | None = None) -> None:
        """IIC has no pseudo-labels."""

    def loss(self, views: Tensor, targets: Tensor | None, prior: Tensor, known: Clamp | None = None) -> Tensor:
        others = views[1:]
        return losses.paired_information(views[:1].expand_as(others), others).mean(0) + error_of_known(views, known)


@dataclass(frozen=True)
class SeLa(_Method):
    """Self-labelling (Asano et al. 2020): cross-entropy with the labels of an optimal transport to classes with the
    sizes of the prior.

    Attributes:
        sharpness: factor of the log-probabilities in the transport; 25 in the public code.
        rounding: "hard", one-hot labels as in the paper, or "soft", the transport plan.
        tolerance: largest error of a class size, as a share of all points.
    """

    sharpness: Annotated[float, Above(0)] = 25.0
    rounding: Literal["hard", "soft"] = "hard"
    tolerance: Annotated[float, Above(0)] = 1e-2

    def targets(self, log_p: Tensor, prior: Tensor, known: Clamp | None = None) -> Tensor:
        rows, columns = torch.ones_like(log_p[..., 0]), prior.expand(*log_p.shape[:-2], -1) * log_p.shape[-2]
        known_rows = torch.zeros_like(log_p)
        if known is not None:  # known rows already use part of the size of a class
            known_rows = torch.nn.functional.one_hot(known[1], log_p.shape[-1]).to(log_p) * known[0][..., None]
            rows, columns = rows - known_rows.sum(-1), (columns - known_rows.sum(-2)).clamp_min(1e-6)
        plan = sinkhorn(self.sharpness * log_p, rows, columns, tolerance=self.tolerance).assignments
        if self.rounding == "hard":
            plan = torch.zeros_like(plan).scatter_(-1, plan.argmax(-1, keepdim=True), 1.0)
        return plan if known is None else torch.where(known[0][..., None], known_rows, plan)


@dataclass(frozen=True)
class MIADM(_Method):
    """Mutual information by the alternating direction method (Jabi et al. 2019), the pseudo-labels of TIM-ADM:
    cross-entropy with `clustering.optimiser.pseudo_labels.adm`.

    Attributes:
        marginal, conditional: weights of the terms of the pseudo-labels.
        corrections: number of steps from the closed form towards a stationary point.
    """

    marginal: Annotated[float, AtLeast(0)] = 1.0
    conditional: Annotated[float, AtLeast(0)] = 1.0
    corrections: Annotated[int, AtLeast(0)] = 0

    def targets(self, log_p: Tensor, prior: Tensor, known: Clamp | None = None) -> Tensor:
        fields: Any = {name: getattr(self, name) for name in ("marginal", "conditional", "corrections")}
        return adm(log_p, prior=prior, known=known, **fields)


@dataclass(frozen=True)
class LabelledAbsolute(_Method):
    """Mean absolute error of the points with known class, and the agreement of views; with its subclasses a baseline
    for the benefit of the other points.

    Wrong labels do not change its minimiser if they are spread evenly over the classes (Ghosh, Kumar and Sastry 2017).
    """

    takes_prior: ClassVar[bool] = False
    needs_labels: ClassVar[bool] = True

    def loss(self, views: Tensor, targets: Tensor | None, prior: Tensor, known: Clamp | None = None) -> Tensor:
        value = 0 * views[0].sum((-2, -1))  # keeps a gradient for batches without known classes
        if known is not None:
            value = value + self._error(views[0], known[1], known[0].to(views.dtype))
        return value + self.agreement * disagreement(views)

    def _error(self, log_p: Tensor, labels: Tensor, weights: Tensor) -> Tensor:
        """(…) error for labels (…, N) with weights of 1 where they are known and 0 elsewhere."""
        return losses.absolute_error(log_p, labels, weights)


@dataclass(frozen=True)
class Labelled(LabelledAbsolute):
    """The same with the cross-entropy.

    Attributes:
        smoothing: share of a label that is spread over all classes: eta in Figure 11 of Zhang and Boykov, where it is
            the share of wrong labels.
    """

    smoothing: Annotated[float, Within(0, 1)] = 0.0

    def _error(self, log_p: Tensor, labels: Tensor, weights: Tensor) -> Tensor:
        return losses.cross_entropy(log_p, _smoothed(labels, log_p, self.smoothing), weights)


@dataclass(frozen=True)
class LabelledReverse(Labelled):
    """`Labelled` with the reverse cross-entropy.

    Up to a constant it is `LabelledAbsolute` times log(1 + K (1 - smoothing) / smoothing). Smoothing is at least 0.01,
    since the loss would be infinite without it.
    """

    def _error(self, log_p: Tensor, labels: Tensor, weights: Tensor) -> Tensor:
        targets = _smoothed(labels, log_p, max(self.smoothing, LEAST_SMOOTHING))
        return losses.reverse_cross_entropy(log_p, targets, weights)


def _smoothed(labels: Tensor, log_p: Tensor, smoothing: float) -> Tensor:
    """(…, N, K) targets from labels (…, N), with this share spread over all classes."""
    one_hot = torch.nn.functional.one_hot(labels, log_p.shape[-1]).to(log_p)
    return smoothing / log_p.shape[-1] + (1 - smoothing) * one_hot


def unknown(views: Tensor, known: Clamp | None) -> Tensor | None:
    """(N,) weights of the rows of (V, …, N, K): 1 if their class is unknown, else 0; None without known classes."""
    return None if known is None else (~known[0]).to(views.dtype)


def error_of_known(views: Tensor, known: Clamp | None) -> Tensor:
    """(…) mean cross-entropy of the rows with known class in the first view of (V, …, N, K), 0 without such rows."""
    if known is None:
        return views.new_zeros(())
    one_hot = torch.nn.functional.one_hot(known[1], views.shape[-1]).to(views)
    return losses.cross_entropy(views[0], one_hot, known[0].to(views.dtype))


def disagreement(views: Tensor) -> Tensor:
    """(…) mean disagreement of the other views with the first, 0 if there is only one."""
    if len(views) < 2:
        return views.new_zeros(())
    return losses.agreement(views[:1].expand_as(views[1:]), views[1:]).mean(0)
