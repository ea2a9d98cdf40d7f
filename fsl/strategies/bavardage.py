"""BAVARDAGE: a Bayesian mixture of Gaussians, by variational inference (Hu, Pateux and Gripon 2023, "Adaptive Dimension
Reduction and Variational Inference for Transductive Few-Shot Classification")."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch

from clustering.foundation.parameters import Above, AtLeast, validate
from clustering.optimiser.descent import descend
from clustering.optimiser.mixture import MixtureEvidence
from clustering.optimiser.objective import Term
from clustering.optimiser.scatter import Scatter
from fsl.episodes import Episodes, Predictions
from fsl.strategies.paddle import beta_by_shots
from fsl.strategies.soft_kmeans import SoftKMeans
from fsl.transforms import Transform


@dataclass(frozen=True)
class BAVARDAGE:
    """Soft K-means with unknown class sizes: the queries' classes have proportions with a Dirichlet prior, the means a
    Gaussian one, and both are integrated out. Made for unbalanced queries.

    A round, from a few rounds of soft K-means on; n_k is the mass of the queries in class k, N_k that of all points:

        m_k = sum_i y_ik x_i / (prior + N_k),   i over support (its classes known) and queries
        y_qk ~ exp( digamma(concentration + n_k) - (beta / 2) ||x_q - m_k||^2 - (K - 1) / (2 (prior + N_k)) )

    All terms of the bound are concave in Y once proportions and means have been integrated out, so that a round is the
    pure bound step and the objective never rises. Works on inner products.

    The prior draws the means to the origin, which after CL2N is the mean of the base classes. Two parts of the paper
    are left out. Its points are projected on the span of the differences of the means: these are the means that the
    distances are taken to, so that what the projection removes is the same for all classes. And its features are first
    divided, direction by direction, by the spread of the base classes, which a task does not hold; on a Conv-4's
    features of mini-ImageNet that did harm. The public code fixes equal proportions for balanced tasks, as a large
    `concentration` does.

    Attributes:
        transform: per-feature transform.
        beta: factor of the squared distances, the inverse of the classes' variance; 4 in the public code for its scaled
            features. None is 50 times the square root of the shots, chosen on validation classes of mini-ImageNet
            (Conv-4, Conv-6); of 20 shots it was up to 0.7 points below SimpleShot there (Conv-6).
        prior: how many points the prior of a mean weighs as much as; 10 in the public code, which empties classes where
            there are many: on CLIP features of DTD, 20 ways, 1 shot, it was 17 points below SimpleShot. With 1 it
            is above it with 64 ways (glyphs), and 10 points below with 227, where `soft_slk` is 8 above.
        concentration: of the Dirichlet prior; 2 in the public code. The larger, the more equal the proportions.
        rounds: of the mixture, 5 in the public code.
        start_beta: factor of the squared distances in the soft K-means that it starts from; 20 in the public code. None
            is `beta`.
        start_rounds: of the soft K-means; 5 in the public code.
    """

    transductive: ClassVar[bool] = True
    assumes_balance: ClassVar[bool] = False

    transform: Transform = "CL2N"
    beta: Annotated[float, Above(0)] | None = None
    prior: Annotated[float, Above(0)] = 1.0
    concentration: Annotated[float, Above(0)] = 2.0
    rounds: Annotated[int, AtLeast(1)] = 5
    start_beta: Annotated[float, Above(0)] | None = None
    start_rounds: Annotated[int, AtLeast(1)] = 5

    def __post_init__(self) -> None:
        validate(self)

    def predict(self, episodes: Episodes) -> Predictions:
        """Class probabilities of the queries; the trace holds the objective of the mixture, from its start on."""
        episodes = episodes.transformed(self.transform)
        start = SoftKMeans(
            transform=self.transform, beta=self.start_beta or self.beta, rounds=self.start_rounds, tolerance=0
        ).predict(episodes)
        beta = beta_by_shots(episodes) if self.beta is None else self.beta
        support = episodes.support_one_hot.mT
        valid = None if episodes.query_mask is None else episodes.query_mask[:, None].to(episodes.dtype)
        terms: list[Term] = [
            Scatter(episodes.points, support, valid, beta, self.prior),
            MixtureEvidence(
                support.sum(dim=2, keepdim=True), valid, self.concentration, self.prior, dimensions=episodes.way - 1
            ),
        ]
        found = descend(
            torch.zeros_like(start.probabilities),
            terms,
            start=start.probabilities,
            clamp=episodes.padding,
            step="published",  # concave terms: nothing to guard
            max_iterations=self.rounds,
            tolerance=0,
            trace=True,
        )
        return Predictions(found.assignments, start.iterations + found.iterations, found.trace)
