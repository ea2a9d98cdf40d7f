"""Transduction on top of an inductive classifier."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from clustering.foundation.parameters import validate
from fsl.episodes import Episodes, Predictions, Strategy, TextUse
from fsl.strategies.bavardage import BAVARDAGE
from fsl.strategies.em_dirichlet import EMDirichlet
from fsl.strategies.laplacianshot import LaplacianShot
from fsl.strategies.lp_plus_plus import LPPlusPlus
from fsl.strategies.paddle import PADDLE
from fsl.strategies.simpleshot import SimpleShot
from fsl.strategies.soft_kmeans import SoftKMeans
from fsl.strategies.stata import StatA
from fsl.strategies.text_mixture import TextMixture
from fsl.strategies.tip_adapter import TipAdapter
from fsl.strategies.transclip import TransCLIP
from fsl.strategies.zero_shot import ZeroShot
from fsl.transforms import Transform

_STRATEGIES: dict[str, Strategy] = {
    "zero_shot": ZeroShot(),
    "tip_adapter": TipAdapter(),
    "lp_plus_plus": LPPlusPlus(),
    "simpleshot": SimpleShot(transform="L2N"),
    "transclip": TransCLIP(),
    "stata": StatA(),
    "text_mixture": TextMixture(),
    "laplacianshot": LaplacianShot(transform="L2N"),
    "em_dirichlet": EMDirichlet(),
    "soft_kmeans": SoftKMeans(transform="L2N"),
    "paddle": PADDLE(transform="L2N"),
    "bavardage": BAVARDAGE(transform="L2N"),
}


@dataclass(frozen=True)
class Refined:
    """A transductive strategy in which the probabilities of an inductive strategy replace those by class names, as in
    "+ TransCLIP" (Zanella, Gérin and Ben Ayed 2024, Table 2).

    Both strategies have their default settings, and features of unit length. For other settings, or for the
    probabilities of another model, give them as `prior` of the episodes.

    Attributes:
        inductive: strategy that computes the probabilities.
        refine: strategy that refines them.
    """

    transductive: ClassVar[bool] = True
    assumes_balance: ClassVar[bool] = False
    text: ClassVar[TextUse] = "required"
    transform: ClassVar[Transform] = "L2N"

    inductive: Literal["zero_shot", "tip_adapter", "lp_plus_plus", "simpleshot"] = "lp_plus_plus"
    refine: Literal[
        "transclip", "stata", "text_mixture", "laplacianshot", "em_dirichlet", "soft_kmeans", "paddle", "bavardage"
    ] = "stata"

    def __post_init__(self) -> None:
        validate(self)

    def predict(self, episodes: Episodes) -> Predictions:
        """Class probabilities of the queries; iterations and trace are those of the strategy that refines."""
        prior = _STRATEGIES[self.inductive].predict(episodes).probabilities
        return _STRATEGIES[self.refine].predict(episodes.with_prior(prior))
