"""The options of every group as rows, for `transduce list`."""

from collections.abc import Callable, Mapping
from typing import Any

from clustering.deep import OBJECTIVES
from clustering.foundation.errors import InputError
from runs.config import groups
from runs.config.groups import GROUPS
from runs.figures import papers
from runs.tables.papers.published import published_names, published_table


def _strategies() -> list[dict[str, Any]]:
    rows = []
    for name in groups.names("strategy"):
        kind, default = _class("strategy", name)
        rows.append(
            {
                "name": name,
                "transductive": getattr(kind, "transductive", None),
                "assumes_balance": getattr(kind, "assumes_balance", None),
                "needs": groups.needs(kind),
                "about": groups.comment("strategy", name) or default,
            }
        )
    return rows


def _plugins(group: str) -> Callable[[], list[dict[str, Any]]]:
    return lambda: [
        {"name": name, "about": groups.comment(group, name) or _class(group, name)[1]} for name in groups.names(group)
    ]


def _tables() -> list[dict[str, Any]]:
    from runs.tables.papers.paper import paper_table

    rows = []
    for printed in map(published_table, published_names()):
        cells = paper_table(printed.name).cells.values()
        runnable = sum(
            cell.config is not None and cell.published is not None for cell in cells
        )  # with a published value
        rows.append(
            {
                "name": printed.name,
                "kind": printed.kind,
                "cells": len(printed.values),
                "runnable": runnable,
                "quoted": sum(value.kind == "quoted" for value in printed.values.values()),
                "about": printed.caption,
            }
        )
    return rows


def _class(group: str, name: str) -> tuple[Any, str]:
    """Return the class of an option and the first line of its docstring, or the error of an import that fails."""
    try:
        kind = groups.load(GROUPS[group], groups.option(group, name).plugin)
    except InputError as error:
        return None, str(error)
    return kind, _first_line(kind.__doc__)


def _files(group: str) -> Callable[[], list[dict[str, Any]]]:
    nothing = GROUPS[group].nothing if group in GROUPS else ""
    return lambda: [
        {"name": name, "about": groups.comment(group, name)} for name in groups.names(group) if name != nothing
    ]


def _objectives() -> list[dict[str, Any]]:
    """Return the objectives, described by the config of their method (without torch) or else by their docstring."""
    rows = []
    for name in OBJECTIVES.names():
        comment = groups.comment("method", name)
        try:
            comment = comment or _first_line(OBJECTIVES.load(name).__doc__)
        except InputError as error:
            comment = str(error)
        rows.append({"name": name, "about": comment})
    return rows


def _trained() -> list[dict[str, Any]]:
    """Return the networks in the results folder, for `classify --backbone FILE` and `checkpoint=FILE`."""
    from runs.cache import Store
    from runs.own_data.trained_networks import trained_networks

    return [
        {"name": str(network.path), "about": f"{network.backbone}, trained on {network.benchmark}"}
        for network in trained_networks(Store())
    ]


def _first_line(text: str | None) -> str:
    return (text or "").strip().partition("\n")[0]


KINDS: Mapping[str, Callable[[], list[dict[str, Any]]]] = {
    "strategies": _strategies,
    "samplers": _plugins("sampler"),
    "benchmarks": _plugins("benchmark"),
    "backbones": _files("backbone"),
    "trainings": _files("training"),
    "tunings": _files("tuning"),
    "datasets": _plugins("dataset"),
    "methods": _plugins("method"),
    "fair_datasets": _plugins("fair_dataset"),
    "fair_methods": _plugins("fair_method"),
    "networks": _files("network"),
    "objectives": _objectives,
    "trained": _trained,
    "selections": _files("selection"),
    "experiments": _files("experiment"),
    "tables": _tables,
    "figures": papers.listed,
}
