"""Fields of strategies at the ends of what floats can hold: refused with their name, or finite probabilities."""

import dataclasses
import typing

import pytest
import torch

from clustering.foundation.errors import InputError
from fsl.episodes import Episodes, Strategy
from tests.fsl.every_strategy import draw, every_strategy

FLOATS = (-1.0, 0.0, 5e-324, 1e-300, 1e-15, 1e15, 1e30, 1e300)
INTEGERS = (-1, 0, 1, 2**62, 10**30)
FEW = {"max_iter": 3, "epochs": 2}
"""Fields that say how long a strategy works, and how long it does here."""


@pytest.fixture(scope="module")
def episodes() -> Episodes:
    return draw(1, batch=2, way=3, queries=5, dim=6)


@every_strategy
def test_every_number(strategy: Strategy, episodes: Episodes) -> None:
    hints = typing.get_type_hints(type(strategy), include_extras=True)
    names = {field.name for field in dataclasses.fields(strategy)}  # type: ignore[arg-type]
    few = {name: value for name, value in FEW.items() if name in names}
    quick = dataclasses.replace(strategy, **few)  # type: ignore[type-var]
    for field in dataclasses.fields(strategy):  # type: ignore[arg-type]
        kind = str(hints[field.name])
        values = FLOATS if "float" in kind else INTEGERS if "int" in kind else ()
        for value in values[:3] if field.name in few else values:
            check(quick, field.name, value, episodes)


def check(strategy: Strategy, name: str, value: float, episodes: Episodes) -> None:
    """One value of one field; a training that grows without bound is refused, too."""
    try:
        changed = dataclasses.replace(strategy, **{name: value})  # type: ignore[type-var]
        assert abs(value) <= (1e15 if isinstance(value, float) else 2**63), f"{name}={value} is taken"
        found = changed.predict(episodes).probabilities
    except InputError as error:
        if name not in str(error):
            raise
        return
    assert bool((found >= 0).all()), f"{name}={value}"
    torch.testing.assert_close(found.sum(-1), torch.ones(2, 5), msg=f"{name}={value}: {found[0, 0].tolist()}")
