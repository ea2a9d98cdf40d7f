"""Strategies by name: creation, storage in files, and warnings about their assumptions."""

import dataclasses
from pathlib import Path
from typing import Any

from clustering.foundation.errors import InputError
from fsl.episodes import Strategy, check_strategy
from fsl.strategies import STRATEGIES

ANY_MIX = "soft_slk"  # a transductive strategy for queries with any class proportions
SHIFT = "shift"  # the field of strategies that can shift the queries' mean to the support's


def named(choice: str | Strategy) -> Strategy:
    """The strategy with that name and its defaults, except for `shift`, which is false: unlike tasks of a benchmark, a
    user's own pictures rarely have equal class proportions in support and queries. A strategy object is returned
    unchanged.

    Raises:
        InputError: the name is unknown, or as `check_strategy`.
    """
    if isinstance(choice, str):
        kind = STRATEGIES.load(choice)
        strategy: Strategy = kind(
            **({SHIFT: False} if SHIFT in (field.name for field in dataclasses.fields(kind)) else {})
        )
        return strategy
    check_strategy(getattr(choice, "__name__", type(choice).__name__), choice)
    return choice


def name_of(strategy: Strategy) -> str:
    """The strategy's registered name, otherwise module:Class."""
    place = f"{type(strategy).__module__}:{type(strategy).__qualname__}"
    return next((name for name in STRATEGIES.names() if STRATEGIES.locate(name) == place), place)


def stored(path: Path, name: str, fields: dict[str, Any]) -> Strategy:
    """Create the strategy stored in a file. Only registered names are accepted, so that a file cannot cause the import
    of an arbitrary module.

    Raises:
        InputError: the name is not registered or the fields are invalid; the message names the file.
    """
    if name not in STRATEGIES.names():
        raise InputError(
            f"{path}: its strategy {name!r} is not registered; give a strategy that you trust with strategy=, because "
            "importing a module runs its code"
        )
    values = {field: tuple(value) if isinstance(value, list) else value for field, value in fields.items()}
    try:
        strategy: Strategy = STRATEGIES.load(name)(**values)
    except (TypeError, InputError) as error:
        raise InputError(
            f"{path}: {name} does not accept the stored fields ({error}); fit and save it again"
        ) from error
    return strategy


def cautions(strategy: Strategy, queries: int) -> list[str]:
    """Warnings about a strategy for the given number of queries with unknown class proportions."""
    name = name_of(strategy)
    if strategy.transductive and queries == 1:
        return [
            f"only one query: {name} uses the other queries, but there are none; the query is classified by itself, by "
            "the class names or the nearest prototype"
        ]
    if strategy.assumes_balance:
        return [
            f"{name} assumes the same number of queries in each class; if this may not hold, use strategy={ANY_MIX}"
        ]
    if getattr(strategy, SHIFT, False):
        return [
            f"{name} with shift=true assumes equal class proportions in queries and support; if this may not hold, set "
            "shift=false"
        ]
    return []


def statement_of(strategy: Strategy) -> str:
    """A sentence on whether the predictions of pictures depend on each other."""
    name = name_of(strategy)
    if not strategy.transductive:
        return f"{name} classifies each picture independently of the others."
    return f"{name} classifies all pictures jointly: the label of a picture may depend on the other pictures."
