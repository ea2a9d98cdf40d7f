"""Discriminative clustering methods as pairs of an assignment step and a loss, each a frozen dataclass whose fields are
its hyper-parameters. Their names are in the table of `clustering.deep`; to add one: a class, and a line there.

An assignment step makes pseudo-labels (…, N, K) of log-probabilities, a prior over the classes and the rows whose class
is known; nothing is differentiated through it. A loss is a function of the log-probabilities of V views of the points
(V, …, N, K), the first of them as they are, and of the pseudo-labels of the first.
"""

import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, Protocol

import torch
from sklearn.exceptions import ConvergenceWarning
from torch import Tensor

from clustering.deep import losses
from clustering.deep.fair_pseudo_labels import em_pseudo_labels, exact_pseudo_labels
from clustering.foundation.errors import InputError
from clustering.foundation.parameters import Above, AtLeast, Within, validate
from clustering.optimiser.alternation import Clamp
from clustering.optimiser.pseudo_labels import adm
from clustering.optimiser.transport import sinkhorn

Solver = Literal["em", "exact"]
LEAST_SMOOTHING = 0.01  # of labels in the reverse cross-entropy, as in Figure 11 of Zhang and Boykov without wrong ones


class Objective(Protocol):
    """What a model is trained by.

    Attributes:
        takes_prior: whether the prior has a part in it.
    """

    takes_prior: ClassVar[bool]

    def targets(self, log_p: Tensor, prior: Tensor, known: Clamp | None = None) -> Tensor | None:
        """(…, N, K) pseudo-labels of log-probabilities (…, N, K), rows sum to one, known rows one-hot; None for a
        method that has none. Without gradient.

        Args:
            log_p: of the points as they are.
            prior: (K,) the clusters' shares as they are expected.
            known: (mask (N,), classes (N,)) of the rows whose class is known; classes are 0 elsewhere.
        """
        ...

    def loss(self, views: Tensor, targets: Tensor | None, prior: Tensor, known: Clamp | None = None) -> Tensor:
        """(…) the loss of log-probabilities (V, …, N, K) of V views, first of the points as they are. It sees to rows
        whose class is known: where the targets do not have them, by `error_of_known`."""
        ...


class _Validated:
    takes_prior: ClassVar[bool] = True

    def __post_init__(self) -> None:
        validate(self)


@dataclass(frozen=True)
class Entropy(_Validated):
    """Entropy clustering (Zhang and Boykov, eq. 42): reverse cross-entropy with pseudo-labels near the predictions, of
    which no class is left empty.

    Attributes:
        fairness: weight of KL(u || ybar); 100 in the paper.
        solver: "em", the paper's steps from the predictions up to the tolerance: reweighted predictions, at weight 100.
            "exact", the minimiser up to `gap`, which trains worse: from random weights networks lose clusters with it,
            and linear heads end at a lower accuracy. A class that is hardly predicted gets a few points for certain
            instead of a share of many, and the loss weighs by the predictions.
        tolerance: of em, largest change of a label in its last step.
        gap: of exact, by what share of 1 + fairness the objective may be above its minimum.
        agreement: weight of the views' symmetric divergence.

    Warns:
        ConvergenceWarning: steps of em or exact ended above their tolerance.
    """

    fairness: Annotated[float, AtLeast(0)] = 100.0
    solver: Solver = "em"
    tolerance: Annotated[float, Above(0)] = 1e-2
    gap: Annotated[float, Above(0)] = 1e-5
    agreement: Annotated[float, AtLeast(0)] = 1.0

    def targets(self, log_p: Tensor, prior: Tensor, known: Clamp | None = None) -> Tensor:
        em = self.solver == "em"
        solve, tolerance = (em_pseudo_labels, self.tolerance) if em else (exact_pseudo_labels, self.gap)
        found = solve(log_p, self.fairness, prior, known=known, tolerance=tolerance)
        if not bool(found.converged.all()):  # said of one batch: the message is the same for all
            warnings.warn(
                f"pseudo-labels of a batch by {self.solver} were not within {'tolerance' if em else 'gap'} "
                f"({tolerance:g}) of their end after the steps that it may take; the training goes on with them",
                ConvergenceWarning,
                stacklevel=2,
            )
        return found.labels

    def loss(self, views: Tensor, targets: Tensor | None, prior: Tensor, known: Clamp | None = None) -> Tensor:
        assert targets is not None
        unknown = None if known is None else (~known[0]).to(views.dtype)
        found = losses.reverse_cross_entropy(views[0], targets, unknown)
        return found + error_of_known(views, known) + self.agreement * disagreement(views)


@dataclass(frozen=True)
class MutualInformation(_Validated):
    """MIGD (Bridle et al. 1991; RIM, Krause et al. 2010): mean entropy and the divergence of the mean from the prior,
    by gradient and without pseudo-labels.

    Attributes:
        fairness: weight of KL(pbar || u), which with the even prior is log K - H(pbar).
        order: of Renyi's entropy, 1 is Shannon's.
        agreement: weight of the views' symmetric divergence.
    """

    fairness: Annotated[float, AtLeast(0)] = 1.0
    order: Annotated[float, Above(0)] = 1.0
    agreement: Annotated[float, AtLeast(0)] = 1.0

    def targets(self, log_p: Tensor, prior: Tensor, known: Clamp | None = None) -> None:
        return None

    def loss(self, views: Tensor, targets: Tensor | None, prior: Tensor, known: Clamp | None = None) -> Tensor:
        spread = losses.tolerant_fairness(views[0].exp().mean(-2), prior)
        found = losses.mean_entropy(views[0], self.order) + self.fairness * spread
        return found + error_of_known(views, known) + self.agreement * disagreement(views)


@dataclass(frozen=True)
class IMSAT(_Validated):
    """Information maximising self-augmented training (Hu et al. 2017) with views in place of adversarial changes:
    agreement + weight (mean entropy + marginal KL(pbar || u)).

    Attributes:
        weight: 0.1 in the public code.
        marginal: 4 in the public code.
    """

    weight: Annotated[float, AtLeast(0)] = 0.1
    marginal: Annotated[float, AtLeast(0)] = 4.0

    def targets(self, log_p: Tensor, prior: Tensor, known: Clamp | None = None) -> None:
        return None

    def loss(self, views: Tensor, targets: Tensor | None, prior: Tensor, known: Clamp | None = None) -> Tensor:
        information = MutualInformation(fairness=self.marginal, agreement=0).loss(views, None, prior)
        return self.weight * information + error_of_known(views, known) + disagreement(views)


@dataclass(frozen=True)
class IIC(_Validated):
    """Invariant information clustering (Ji et al. 2019): the information that the classes of a point and of its other
    views have about each other. It takes no prior: balance is what maximises it."""

    takes_prior: ClassVar[bool] = False

    def targets(self, log_p: Tensor, prior: Tensor, known: Clamp | None = None) -> None:
        return None

    def loss(self, views: Tensor, targets: Tensor | None, prior: Tensor, known: Clamp | None = None) -> Tensor:
        if len(views) < 2:
            raise InputError("iic compares views of an image; give it augmentation and at least one view")
        others = views[1:]
        return losses.paired_information(views[:1].expand_as(others), others).mean(0) + error_of_known(views, known)


@dataclass(frozen=True)
class SeLa(_Validated):
    """Self-labelling (Asano et al. 2020): cross-entropy with the labels of an optimal transport to classes of the
    prior's size.

    Attributes:
        sharpness: of the transport, by which the log-probabilities are multiplied; 25 in the public code.
        rounding: "hard", one-hot labels as in the paper, or "soft", the transport plan.
        tolerance: largest error of a class's size, as a share of all points.
        agreement: weight of the views' symmetric divergence.
    """

    sharpness: Annotated[float, Above(0)] = 25.0
    rounding: Literal["hard", "soft"] = "hard"
    tolerance: Annotated[float, Above(0)] = 1e-2
    agreement: Annotated[float, AtLeast(0)] = 1.0

    def targets(self, log_p: Tensor, prior: Tensor, known: Clamp | None = None) -> Tensor:
        rows, columns = torch.ones_like(log_p[..., 0]), prior.expand(*log_p.shape[:-2], -1) * log_p.shape[-2]
        given = torch.zeros_like(log_p)
        if known is not None:  # what known rows have of a class is taken already
            given = torch.nn.functional.one_hot(known[1], log_p.shape[-1]).to(log_p) * known[0][..., None]
            rows, columns = rows - given.sum(-1), (columns - given.sum(-2)).clamp_min(1e-6)
        plan = sinkhorn(self.sharpness * log_p, rows, columns, tolerance=self.tolerance).assignments
        if self.rounding == "hard":
            plan = torch.zeros_like(plan).scatter_(-1, plan.argmax(-1, keepdim=True), 1.0)
        return plan if known is None else torch.where(known[0][..., None], given, plan)

    def loss(self, views: Tensor, targets: Tensor | None, prior: Tensor, known: Clamp | None = None) -> Tensor:
        assert targets is not None
        return losses.cross_entropy(views[0], targets) + self.agreement * disagreement(views)


@dataclass(frozen=True)
class MIADM(_Validated):
    """Mutual information by the alternating direction method (Jabi et al. 2019), the pseudo-labels of TIM-ADM:
    cross-entropy with `clustering.optimiser.pseudo_labels.adm`.

    Attributes:
        marginal, conditional: weights of the pseudo-labels' terms.
        corrections: steps from the closed form to a stationary point.
        agreement: weight of the views' symmetric divergence.
    """

    marginal: Annotated[float, AtLeast(0)] = 1.0
    conditional: Annotated[float, AtLeast(0)] = 1.0
    corrections: Annotated[int, AtLeast(0)] = 0
    agreement: Annotated[float, AtLeast(0)] = 1.0

    def targets(self, log_p: Tensor, prior: Tensor, known: Clamp | None = None) -> Tensor:
        return adm(
            log_p,
            marginal=self.marginal,
            conditional=self.conditional,
            prior=prior,
            known=known,
            corrections=self.corrections,
        )

    def loss(self, views: Tensor, targets: Tensor | None, prior: Tensor, known: Clamp | None = None) -> Tensor:
        assert targets is not None
        return losses.cross_entropy(views[0], targets) + self.agreement * disagreement(views)


@dataclass(frozen=True)
class _LabelsAlone(_Validated, ABC):
    """An error of the points whose class is known, and the agreement of views: what other points add is seen against
    it."""

    takes_prior: ClassVar[bool] = False

    agreement: Annotated[float, AtLeast(0)] = 1.0

    def targets(self, log_p: Tensor, prior: Tensor, known: Clamp | None = None) -> None:
        return None

    def loss(self, views: Tensor, targets: Tensor | None, prior: Tensor, known: Clamp | None = None) -> Tensor:
        found = 0 * views[0].sum((-2, -1))  # of a batch in which nothing is known, too, there is a slope
        if known is not None:
            found = found + self._error(views[0], known[1], known[0].to(views.dtype))
        return found + self.agreement * disagreement(views)

    @abstractmethod
    def _error(self, log_p: Tensor, labels: Tensor, weights: Tensor) -> Tensor:
        """(…) of labels (…, N), whose weights are 1 where they are known, else 0."""


@dataclass(frozen=True)
class Labelled(_LabelsAlone):
    """Nothing but the cross-entropy of the points whose class is known, and the agreement of views.

    Attributes:
        smoothing: share of a label that is spread over all classes: eta of Zhang and Boykov's Figure 11, where it is
            the share of labels that are wrong.
        agreement: weight of the views' symmetric divergence.
    """

    smoothing: Annotated[float, Within(0, 1)] = 0.0

    def _error(self, log_p: Tensor, labels: Tensor, weights: Tensor) -> Tensor:
        return losses.cross_entropy(log_p, _smoothed(labels, log_p, self.smoothing), weights)


@dataclass(frozen=True)
class LabelledReverse(Labelled):
    """`Labelled` by the reverse cross-entropy: up to a constant `LabelledAbsolute` times
    log(1 + K (1 - smoothing) / smoothing). Smoothing is at least 0.01, for without any the loss would be infinite."""

    def _error(self, log_p: Tensor, labels: Tensor, weights: Tensor) -> Tensor:
        targets = _smoothed(labels, log_p, max(self.smoothing, LEAST_SMOOTHING))
        return losses.reverse_cross_entropy(log_p, targets, weights)


@dataclass(frozen=True)
class LabelledAbsolute(_LabelsAlone):
    """`Labelled` by the mean absolute error, whose minimiser wrong labels leave where it is as long as they are spread
    evenly over the classes (Ghosh, Kumar and Sastry 2017)."""

    def _error(self, log_p: Tensor, labels: Tensor, weights: Tensor) -> Tensor:
        return losses.absolute_error(log_p, labels, weights)


def _smoothed(labels: Tensor, log_p: Tensor, smoothing: float) -> Tensor:
    """(…, N, K) labels (…, N) as targets of which that share is spread over all classes."""
    one_hot = torch.nn.functional.one_hot(labels, log_p.shape[-1]).to(log_p)
    return smoothing / log_p.shape[-1] + (1 - smoothing) * one_hot


def error_of_known(views: Tensor, known: Clamp | None) -> Tensor:
    """(…) cross-entropy of the rows whose class is known in the first of views (V, …, N, K), for losses that do not see
    them as pseudo-labels; 0 where none is known."""
    if known is None:
        return views.new_zeros(())
    one_hot = torch.nn.functional.one_hot(known[1], views.shape[-1]).to(views)
    return losses.cross_entropy(views[0], one_hot, known[0].to(views.dtype))


def disagreement(views: Tensor) -> Tensor:
    """(…) mean over the other views of their disagreement with the first, 0 where there is only one."""
    if len(views) < 2:
        return views.new_zeros(())
    return losses.agreement(views[:1].expand_as(views[1:]), views[1:]).mean(0)
