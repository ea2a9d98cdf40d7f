"""Checks of the recipe of a paper's table (`runs.tables.papers.recipe`) against the print."""

import math
from collections.abc import Callable, Collection, Mapping
from typing import Any

from clustering.foundation.errors import InputError, unknown
from runs.config import overrides
from runs.config.configs import SCHEMAS
from runs.config.fair import METRICS
from runs.tables.papers.printed import PublishedColumn, PublishedRow, PublishedTable

WEIGHT = "fairness_weight"


def check_words(content: Mapping[str, Any], parts: Collection[str], printed: PublishedTable) -> None:
    """Check that the keys, headings and metrics of a file are those of recipes and of the print.

    Raises:
        InputError: names the part and the word.
    """
    for key in content:
        if key not in parts:
            raise unknown("key", key, parts)
    metrics = {column.metric for column in printed.columns}
    names = {column.name for column in printed.columns}
    for part, headings in (("columns", printed.columns), ("rows", printed.rows), ("scored", printed.rows)):
        right = {word for heading in headings for word in (heading.group, heading.name)}
        _check(part, "heading", _mapping(part, content.get(part)), right | (metrics if part == "scored" else set()))
    words = _mapping("instead", content.get("instead"))
    of_rows = {word for row in printed.rows for word in (row.group, row.name)}
    _check("instead", "heading", words, of_rows | {column.group for column in printed.columns} | names)
    if any(not isinstance(value, str) for value in words.values()):
        raise InputError("instead: say in words how the cells differ")
    for part in ("metrics", "tolerance"):
        _check(part, "column or metric", _mapping(part, content.get(part)), metrics | names)
    for part in ("at", "cells", "cannot"):
        rows = _mapping(part, content.get(part))
        _check(part, "row", rows, {row.name for row in printed.rows})
        for row, cells in rows.items():
            _check(f"{part}: {row}", "column", _mapping(f"{part}: {row}", cells), names)
            for column, value in cells.items():
                if part != "cannot":
                    _mapping(f"{part}: {row}: {column}", value)
                elif not isinstance(value, str):
                    raise InputError(f"{part}: {row}: {column}: say why, in quotes, not {overrides.write(value)}")
    if not isinstance(same := content.get("same_queries", False), bool):
        raise InputError(f"same_queries: must be true or false, not {overrides.write(same)}")
    if (verb := content.get("verb", "")) and verb not in SCHEMAS:
        raise unknown("verb", verb, SCHEMAS)
    if not isinstance(needs := content.get("needs", ""), str):
        raise InputError(f"needs: say in words what the runs need, not {overrides.write(needs)}")
    if content.get("at") and verb != "fair":
        raise InputError("at: only fair clusterings have a path of weights; set verb: fair")


def check_paths(
    at: Mapping[str, Mapping[str, Mapping[str, str]]],
    metric: Callable[[PublishedColumn], str],
    settings: Callable[[PublishedRow, PublishedColumn], Mapping[str, str]],
    printed: PublishedTable,
) -> None:
    """Check that the compared point is on the path of its cell.

    Args:
        at: of the recipe. metric: what its runs call a column's. settings: those of a cell.

    Raises:
        InputError: names the cell, and what there is.
    """
    rows = {row.name: row for row in printed.rows}
    for name, cells in at.items():
        for heading, place in cells.items():
            where = f"at: {name}: {heading}"
            columns = [column for column in printed.columns if column.name == heading]
            shown = {metric(column) for column in columns}
            _check(where, "key", place, shown | {WEIGHT})
            _check(where, "metric", [place[name] for name in shown & place.keys()], METRICS)
            if WEIGHT in place:
                path = settings(rows[name], columns[0]).get(WEIGHT, "null")
                _check_weight(where, place[WEIGHT], path)


def _check_weight(where: str, text: str, path: str) -> None:
    weight = overrides.values(WEIGHT, text)[0].value
    if isinstance(weight, bool) or not isinstance(weight, (int, float)):
        raise InputError(f"{where}: {WEIGHT} must be a number, not {text}")
    weights = overrides.values(WEIGHT, path)[0].value
    if weights is None:
        raise InputError(f"{where}: give the row or cell its weights, as {WEIGHT}: [0, {text}]")
    if not any(math.isclose(weight, other) for other in weights):
        raise InputError(f"{where}: {WEIGHT}={text} is not on the path of that cell, {path}")


def _mapping(where: str, value: Any) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise InputError(f"{where}: must hold KEY: VALUE, not {overrides.write(value)}")
    return value


def _check(where: str, what: str, words: Collection[str], right: Collection[str]) -> None:
    for word in words:
        if word not in right:
            raise InputError(f"{where}: {unknown(what, word, right)}")
