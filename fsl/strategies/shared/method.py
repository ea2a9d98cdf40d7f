"""What the strategies of this project have in common. A plug-in need not inherit it, see `fsl.episodes.Strategy`."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

from clustering.foundation.parameters import Validated
from fsl.episodes import TextUse

Variant = Literal["corrected", "published"]
"""Form of a method where its public code differs from what it should be."""


@dataclass(frozen=True)
class Method(Validated):
    """A strategy whose fields are checked against their annotations. A subclass states where it differs.

    Attributes of the class are those of `fsl.episodes.Strategy`. Fields that mean the same in many strategies:

    Attributes:
        transform: per-feature transform.
        n_neighbors: k of the kNN graph, without the point itself.
        text_weight: weight of the class names' evidence, -log of their probabilities, in the cost of a query; no effect
            without class names. None: min(1, 0.1 beta / n) with n labelled examples per class; beta is 1 if there is no
            such field.
        variant: "corrected" or "published", see the strategy.
    """

    transductive: ClassVar[bool] = True
    assumes_balance: ClassVar[bool] = False
    text: ClassVar[TextUse] = "none"


@dataclass(frozen=True)
class PublishedMethod(Method):
    """A strategy whose public code differs from the defaults in the settings `published`."""

    published: ClassVar[Mapping[str, Any]]

    @classmethod
    def as_published(cls, **changes: Any) -> Self:
        """The settings of the public code, with these changes."""
        return cls(**{**cls.published, **changes})
