"""Few-shot inference as clustering of support and queries with known support labels (Ziko, Boudiaf, Dolz, Granger and
Ben Ayed 2021, journal section 2): K-means and K-modes, and with Laplacian regularisation SLK-Means, SLK-MS and SLK-BO
(Ziko, Granger and Ben Ayed 2018; thesis section 2.3.1)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import torch
from torch import Tensor
from torch.nn.functional import pad

from clustering.foundation.parameters import Above, AtLeast
from clustering.graphs.dense_graph import Symmetry
from clustering.graphs.neighbourhood import Arcs, nearest_arcs
from clustering.optimiser import prototypes as kinds
from clustering.optimiser.alternation import Members, Sweeps, alternate
from clustering.optimiser.descent import Step
from clustering.optimiser.points import Gram, Points
from clustering.optimiser.terms import Laplacian
from fsl.episodes import Episodes, Predictions, TextUse
from fsl.strategies.shared.method import PublishedMethod, Variant
from fsl.transforms import Transform

Kind = Literal["means", "modes", "points"]
SWEEPS: dict[Variant, tuple[int, float]] = {"corrected": (100, 1e-6), "published": (600, 1e-7)}
"""Maximum number of sweeps of an outer step, and the relative change of the objective at which they end."""
TOLERANCE = 1e-4
"""Relative change of the objective at which a task stops, from the third outer step on, as in the public code."""


@dataclass(frozen=True)
class SLKMeans(PublishedMethod):
    """K-means clustering of support and queries, with fixed support labels and Laplacian regularisation.

    Minimises sum_pk s_pk beta a(x_p, m_k) + <S, log S> - (weight / 2) <S, W S> alternately over the assignments S of
    the queries and the prototypes M (journal eqs. 11, 14, 18 and 20), where W is the kNN graph of support and queries,
    and a(x, m) = ||x - m||^2. The objective is guaranteed to decrease with soft members in the corrected variant, if
    the graph is symmetric.

    The defaults are the correct form, with the hard members of the published tables: the first assignments come from
    the support means, and each outer step starts from the last ones (journal Algorithm 1). In the variant of the public
    code, support points have their class at the start only, the prototypes are updated first, with each query assigned
    to the nearest support mean, and each outer step starts from softmax(-a), so that the objective may increase from
    one to the next. Its stopping rule omits the entropy from the objective; here R is used. `as_published` has all
    settings of the public code.

    The classes below differ in the prototypes (means, modes by mean shift, or data points as modes), and in whether
    there is a graph; they have those of these fields that have an effect on them.

    Attributes:
        weight: lambda of the update softmax(-a + lambda W S), >= 0; it multiplies the sum over neighbours. The public
            code tunes it on validation tasks from 0.05 to 1 (0.1 to 1 in journal section 6.4), per method and shot.
            0.3 was best on validation classes of mini-ImageNet (Conv-4), for means and for modes.
        n_neighbors: k of the kNN graph of support and queries, also used for sigma, without the point itself (3 in
            journal section 6.4, whose code counts the point).
        graph: symmetrisation of the kNN graph. A "directed" graph, as published, has no objective: its sweeps are those
            of the papers, without a guard.
        shift: shift the queries so that their mean equals the support's (journal section 6.4). This assumes equal class
            proportions in both.
        beta: factor of a, an inverse temperature. At 1, as in the papers, the costs of the classes differ so little
            that one neighbouring support point outweighs them, and fixing the support labels lowers the accuracy. 10
            (means) and 20 (modes) worked well on validation classes of mini-ImageNet (Conv-4).
        members: each point contributes to the prototype of its likeliest class ("hard", public code), or to all of them
            with its assignments as weights ("soft", journal eqs. 18 and 20). For unit-length features, soft assignments
            are almost uniform, and the means almost equal.
        variant: "corrected", or the "published" start, support labels and width of the modes' kernel, see above.
    """

    text: ClassVar[TextUse] = "optional"
    prototypes: ClassVar[Kind] = "means"
    published: ClassVar[Mapping[str, Any]] = {
        "n_neighbors": 2,
        "graph": "directed",
        "beta": 1.0,
        "variant": "published",
    }
    members: ClassVar[Members] = "hard"
    max_iter: ClassVar[int] = 100

    transform: Transform = "CL2N"
    weight: Annotated[float, AtLeast(0)] = 0.3
    n_neighbors: Annotated[int, AtLeast(1)] = 3
    graph: Symmetry = "average"
    shift: bool = True
    beta: Annotated[float, Above(0)] = 10.0
    variant: Variant = "corrected"
    text_weight: Annotated[float, AtLeast(0)] | None = None

    def predict(self, episodes: Episodes) -> Predictions:
        """Class probabilities of the queries; the iterations are outer steps, the trace holds R after each of them."""
        episodes = episodes.transformed(self.transform)
        points = episodes.shifted_points if self.shift else episodes.points
        if isinstance(points, Gram):  # the products of shifted points are computed once, which is cheaper
            points = Gram(points.pairwise())
        valid, arcs = episodes.mask, None
        if self.weight > 0 or self.prototypes != "means":
            arcs = nearest_arcs(points, self.n_neighbors, valid=valid)
        prototypes: kinds.Prototypes = kinds.Means(points, self.beta)
        if arcs is not None and self.prototypes != "means":
            kind = kinds.ByProductModes if self.prototypes == "points" else kinds.Modes
            prototypes = kind(points, self._variance(episodes, points, arcs), self.beta)
        evidence = None
        if episodes.named and self.text_weight != 0:
            none = episodes.query.new_zeros(len(episodes.query), episodes.query_size, episodes.way)
            evidence = pad(episodes.with_text(none, self.text_weight, self.beta).mT, (episodes.support_size, 0))
        published, (max_sweeps, sweep_tolerance) = self.variant == "published", SWEEPS[self.variant]
        double = self.weight > 0 and sweep_tolerance < 1e-6  # below the resolution of float32
        terms = []
        if self.weight > 0 and arcs is not None:
            terms.append(Laplacian(arcs.graph(self.graph, torch.float64 if double else episodes.dtype), self.weight))
        start, (known, labels) = episodes.class_means, episodes.known
        if published:
            cost = prototypes.cost(start) if evidence is None else prototypes.cost(start).add_(evidence)
            joined = torch.where(known, labels, cost.min(dim=1).indices)
            classes = torch.arange(episodes.way, device=labels.device)[:, None]
            one_hot = (joined[:, None] == classes) & episodes.valid[:, None]
            start = prototypes.update(start, one_hot.to(start.dtype), None)
        clamp: tuple[Tensor, Tensor] | None = (known, labels)
        if published:  # support points have their class at the start only
            clamp = None if valid is None else (~valid, labels)
        unlabelled = episodes.named and not bool(episodes.support_one_hot.sum(dim=1).all())
        step: Step = "published" if self.graph == "directed" else "monotone"
        result = alternate(
            prototypes,
            start,
            terms,
            extra=evidence,
            clamp=clamp,
            hint=(known, labels) if published else None,
            valid=valid,
            members=self.members,
            empty="keep" if unlabelled else "rollback",
            sweeps=Sweeps(step, max_sweeps, sweep_tolerance, warm=not published, double=double),
            max_iterations=self.max_iter,
            tolerance=TOLERANCE,
        )
        return Predictions(result.assignments[:, episodes.support_size :], result.iterations, result.trace)

    def _variance(self, episodes: Episodes, points: Points, arcs: Arcs) -> Tensor:
        """(B, 1, 1) sigma^2, the mean squared distance to the neighbours (journal eq. 29); infinite if all points are
        equal, so that all kernel values are 1. The public code divides the sum of squared distances by 5 times the
        number of points, which for its graph is 0.4 times the mean."""
        size = points.squared_norms.amax(dim=1)
        count = episodes.valid.sum(dim=1).to(size.dtype)
        per_point = 5.0 if self.variant == "published" else arcs.number / count
        variance = arcs.squared_lengths / (count * per_point).clamp_min(1.0)
        smallest = (64 * torch.finfo(size.dtype).eps * size).clamp_min(1e-12)
        return torch.where(variance > smallest, variance, torch.inf)[:, None, None]


@dataclass(frozen=True)
class SLKMS(SLKMeans):
    """K-modes clustering of support and queries, with fixed support labels and Laplacian regularisation: `SLKMeans`
    with a(x, m) = -w(x, m), w(x, m) = exp(-||x - m||^2 / (2 sigma^2)), and modes by mean shift."""

    prototypes: ClassVar[Kind] = "modes"

    beta: Annotated[float, Above(0)] = 20.0


@dataclass(frozen=True)
class SLKBO(SLKMS):
    """SLK-MS with data points as modes: the mode of a class is its member with the largest assignment (thesis eq.
    2.11).

    For the choice of modes, support points use the assignment they would have without the constraint; otherwise a
    support point would always win, and the modes would never change. Updating such modes is not a descent step: modes
    may return to earlier points, and a task may stop only at `max_iter`. Usually the modes do not change,
    especially for large beta, because each mode is its own nearest point, and only a stronger influence of the
    neighbours can replace it.

    No paper reports this method for few-shot inference, and the public code of this mode does not run; `as_published`
    has the settings it would use.
    """

    prototypes: ClassVar[Kind] = "points"

    weight: Annotated[float, AtLeast(0)] = 0.7
    beta: Annotated[float, Above(0)] = 1.0


@dataclass(frozen=True)
class KMeans(SLKMeans):
    """K-means clustering of support and queries, with the support labels fixed: SLK-Means without its graph (journal
    section 2.1).

    With hard members these are Lloyd's iterations from the support means. Probabilities are
    softmax(-beta ||x - m_k||^2).
    """

    weight: ClassVar[float] = 0.0  # type: ignore[misc]
    n_neighbors: ClassVar[int] = 3  # type: ignore[misc]
    graph: ClassVar[Symmetry] = "average"  # type: ignore[misc]
    published: ClassVar[Mapping[str, Any]] = {"variant": "published"}

    beta: Annotated[float, Above(0)] = 1.0


@dataclass(frozen=True)
class KModes(SLKMS):
    """K-modes clustering of support and queries, with the support labels fixed: SLK-MS without its graph (journal
    section 2.1). Probabilities are softmax(beta w(x, m_k)), close to uniform for beta = 1."""

    weight: ClassVar[float] = 0.0  # type: ignore[misc]
    graph: ClassVar[Symmetry] = "average"  # type: ignore[misc]
    published: ClassVar[Mapping[str, Any]] = {"n_neighbors": 2, "variant": "published"}

    beta: Annotated[float, Above(0)] = 1.0
