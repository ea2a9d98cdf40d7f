"""Transduction on top of an inductive classifier."""

import dataclasses
from dataclasses import dataclass
from typing import Any, ClassVar

from clustering.foundation.errors import InputError
from fsl.episodes import Episodes, Predictions, TextUse
from fsl.strategies import STRATEGIES
from fsl.strategies.shared.method import Method
from fsl.transforms import Transform


@dataclass(frozen=True)
class Refined(Method):
    """A transductive strategy in which the probabilities of an inductive strategy replace those by class names, as in
    "+ TransCLIP" (Zanella, Gérin and Ben Ayed 2024, Table 2).

    Both strategies have their default settings, and features of unit length. For other settings, or for the
    probabilities of another model, give them as `prior` of the episodes.

    Attributes:
        inductive: name of the strategy that computes the probabilities, such as zero_shot, tip_adapter or simpleshot.
        refine: name of the strategy with class names that refines them, such as transclip, text_mixture or paddle.
    """

    text: ClassVar[TextUse] = "required"
    transform: ClassVar[Transform] = "L2N"

    inductive: str = "lp_plus_plus"
    refine: str = "stata"

    def __post_init__(self) -> None:
        super().__post_init__()
        if STRATEGIES.load(self.inductive).transductive:
            raise InputError(f"Refined: inductive={self.inductive} is transductive; give it as refine")
        if getattr(STRATEGIES.load(self.refine), "text", "none") == "none" or self.refine == "refined":
            raise InputError(f"Refined: refine={self.refine} does not use class probabilities; use stata, for example")

    def predict(self, episodes: Episodes) -> Predictions:
        """Class probabilities of the queries; iterations and trace are those of the strategy that refines."""
        prior = _by_name(self.inductive).predict(episodes).probabilities
        refined: Predictions = _by_name(self.refine).predict(episodes.with_prior(prior))
        return refined


def _by_name(name: str) -> Any:
    """A strategy with its defaults, on features of unit length."""
    kind = STRATEGIES.load(name)
    return kind(**({"transform": "L2N"} if "transform" in {field.name for field in dataclasses.fields(kind)} else {}))
