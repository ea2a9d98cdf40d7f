"""The options of every group as rows, for `transduce list`."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from clustering.deep import OBJECTIVES
from clustering.foundation.errors import InputError
from runs.config import groups
from runs.config.groups import GROUPS
from runs.figures import papers
from runs.tables.published import published_names, published_table

Rows = list[dict[str, Any]]


def _options(group: str) -> Rows:
    nothing = GROUPS[group].nothing if group in GROUPS else ""
    return [{"name": name, "about": groups.comment(group, name)} for name in groups.names(group) if name != nothing]


def _strategy(name: str, about: str) -> dict[str, Any]:
    try:
        kind = groups.option("strategy", name).outline
    except InputError as error:  # a package of a user that cannot be imported
        kind, about = None, str(error)
    declared = {key: getattr(kind, key, None) for key in ("transductive", "assumes_balance")}
    return {"name": name, **declared, "needs": groups.needs(kind), "about": about}


def _tables() -> Rows:
    from runs.tables.paper import paper_table

    rows = []
    for printed in map(published_table, published_names()):
        counts = {
            "cells": len(printed.numbers),
            "runnable": sum(bool(cell.config and cell.printed) for cell in paper_table(printed.name).cells),
            "quoted": sum(cell.kind == "quoted" for cell in printed.numbers),
        }
        rows.append({"name": printed.name, "kind": printed.kind, **counts, "about": printed.caption})
    return rows


GROUPS_LISTED = (
    *("sampler", "benchmark", "backbone", "training", "tuning", "dataset", "method", "fair_dataset", "fair_method"),
    *("network", "selection", "experiment"),
)
KINDS: Mapping[str, Callable[[], Rows]] = {
    "strategies": lambda: [_strategy(**row) for row in _options("strategy")],
    **{f"{group}s": partial(_options, group) for group in GROUPS_LISTED},
    "objectives": lambda: [{"name": name, "about": groups.comment("method", name)} for name in OBJECTIVES.names()],
    "tables": _tables,
    "figures": papers.listed,
}
