"""Class proportions of the queries that a user states, for strategies that transport queries to classes."""

from typing import Annotated, Literal

import torch
from torch import Tensor

from clustering.foundation.errors import InputError
from clustering.foundation.parameters import AtLeast
from fsl.episodes import Episodes

Proportions = tuple[Annotated[float, AtLeast(0)], ...] | Literal["equal", "labels"] | None
"""K relative sizes in the order of the classes, 0 for a class without queries; "equal"; or "labels", which estimates
them from the labelled examples, (n_k + 1) / (S + K), and needs examples that were drawn at random rather than by class.
None is the default of the strategy."""


def class_shares(proportions: Proportions, episodes: Episodes) -> Tensor:
    """(B, K) shares of the classes among the queries; rows sum to one. None means equal shares.

    Raises:
        InputError: the number of proportions is not that of the classes, or all of them are 0.
    """
    shares = episodes.support.new_ones(len(episodes.support), episodes.way)
    if proportions == "labels":
        shares += episodes.support_one_hot.sum(dim=1)
    elif proportions is not None and proportions != "equal":
        if len(proportions) != episodes.way or not any(proportions):
            raise InputError(
                f"proportions={list(proportions)}: give one number per class of {episodes.way}, in the order of the "
                "classes (names in alphabetical order), at least one above 0"
            )
        shares *= torch.tensor(proportions, dtype=torch.float64).to(shares)
    return shares / shares.sum(dim=1, keepdim=True)
