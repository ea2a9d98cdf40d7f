"""Strategies as people name them: to be made by name, written into files and read back, and used with care."""

import dataclasses
from pathlib import Path
from typing import Any

from clustering.foundation.errors import InputError
from fsl.episodes import Strategy
from fsl.strategies import STRATEGIES

ANY_MIX = "soft_slk"  # transductive, of queries whose classes may be mixed in any way
SHIFT = "shift"  # the field of strategies that may move the queries' mean to the support's


def named(given: str | Strategy) -> Strategy:
    """The strategy of that name with its defaults, but without the shift of the queries' mean to the support's: in a
    benchmark's tasks the classes are mixed alike in both, in a person's pictures hardly. Or the one given.

    Raises:
        InputError: an unknown name, or no strategy.
    """
    if isinstance(given, str):
        made = STRATEGIES.load(given)
        strategy: Strategy = made(
            **({SHIFT: False} if SHIFT in (field.name for field in dataclasses.fields(made)) else {})
        )
        return strategy
    if isinstance(given, type) or not hasattr(given, "predict") or not hasattr(given, "transductive"):
        raise InputError(f"strategy must be a name, or a strategy such as LaplacianShot(), not {given!r}")
    return given


def name_of(strategy: Strategy) -> str:
    """Its name in the table or of an installed package, else module:Class."""
    place = f"{type(strategy).__module__}:{type(strategy).__qualname__}"
    return next((name for name in STRATEGIES.names() if STRATEGIES.locate(name) == place), place)


def stored(path: Path, name: str, fields: dict[str, Any]) -> Strategy:
    """The strategy that a file names, with the fields in it. It must have a name of its own: a file must not choose
    which module is imported.

    Raises:
        InputError: names the file.
    """
    if name not in STRATEGIES.names():
        raise InputError(
            f"{path}: its strategy {name!r} is not known here; give strategy= and one that you trust, since a "
            "module is run when it is imported"
        )
    values = {field: tuple(value) if isinstance(value, list) else value for field, value in fields.items()}
    try:
        made: Strategy = STRATEGIES.load(name)(**values)
    except (TypeError, InputError) as error:
        raise InputError(f"{path}: {name} does not take the fields in it ({error}); fit it again") from error
    return made


def cautions(strategy: Strategy, queries: int) -> list[str]:
    """Why this strategy may be the wrong one for so many queries of unknown classes: a line for each reason."""
    name = name_of(strategy)
    if strategy.transductive and queries == 1:
        return [
            f"one query alone: {name} learns from the other queries, and there are none; it gets the class of the "
            "nearest prototype"
        ]
    if strategy.assumes_balance:
        return [
            f"{name} takes every class to have equally many of the queries; where that may not be so, take "
            f"strategy={ANY_MIX}"
        ]
    if getattr(strategy, SHIFT, False):
        return [
            f"{name} with shift=true takes the classes to be mixed in the queries as in the support; else shift=false"
        ]
    return []


def said_of(strategy: Strategy) -> str:
    """What it means for the predictions whether a strategy is transductive, in a sentence or two."""
    name = name_of(strategy)
    if not strategy.transductive:
        return f"{name} labels every picture by itself: the others do not change what it gets."
    return f"{name} labels the pictures together: which others are there may change what one of them gets."
