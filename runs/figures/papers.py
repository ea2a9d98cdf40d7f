"""The figures of the papers, by name, and figures of no paper. Those that show no data are not drawn.

To add one: a `Drawing` in a module of this folder, and its name and settings in `papers.yaml`.
"""

import functools
import importlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from clustering.foundation.errors import InputError, unknown
from runs.config import groups
from runs.config.overrides import write
from runs.tables.papers.published import PublishedFigure, figures

if TYPE_CHECKING:
    from runs.figures.drawing import Drawing

OWN: Mapping[str, str] = {  # figures of no paper, with what they show
    "vlm/regimes": "Accuracy of strategies with class names, by the number of classes present",
}


@functools.cache
def entries() -> dict[str, dict[str, Any]]:
    """The entries of `papers.yaml`, by name of the figure."""
    known = yaml.safe_load(Path(__file__).with_name("papers.yaml").read_text(encoding="utf-8"))
    return {name: entry for name, entry in known.items() if name != "shared"}


def drawn() -> list[str]:
    """The names of the papers' figures that can be drawn."""
    return [name for name in entries() if name not in OWN]


def drawing(name: str) -> "Drawing":
    """The `Drawing` of a figure.

    Args:
        name: such as "thesis/4.1", without a benchmark.

    Raises:
        InputError: no figure has that name, or it cannot be drawn here; says why.
    """
    known = {figure.name: figure for figure in figures()}
    if name not in {**known, **OWN}:
        raise unknown("figure", name, {**known, **OWN})
    if name not in entries():
        raise InputError(f"figure {name} cannot be drawn ({known[name].shows}): it {_why_not(known[name])}")
    given = {**entries()[name]}
    module, _, attribute = given.pop("draw").partition(":")
    if "experiment" in given:
        settings = groups.experiment(given.pop("experiment"))
        given["networks"] = settings.get("each", [{}])
        given["settings"] = {key: value for key, value in settings.items() if key != "each"}
    for key in given.keys() & {"networks", "elsewhere"}:
        given[key] = _each(given[key])
    if "settings" in given:
        given["settings"] = _typed(given["settings"])
    found: Drawing = getattr(importlib.import_module(f"runs.figures.{module}"), attribute)
    return replace(found, **given)


def _each(given: Any) -> Sequence[Mapping[str, str]]:
    """Sets of settings, each with those that all have."""
    shared, each = (given["all"], given["each"]) if isinstance(given, dict) else ({}, given)
    return [_typed(shared | settings) for settings in each]


def _typed(settings: Mapping[str, Any]) -> dict[str, str]:
    """Settings as they are typed."""
    return {key: value if isinstance(value, str) else write(value) for key, value in settings.items()}


def listed() -> list[dict[str, str]]:
    """Name of every figure, what it shows, and whether it can be drawn: "yes", or why not."""
    of_papers = [{"name": figure.name, "about": figure.shows, "can be drawn": _can(figure)} for figure in figures()]
    return of_papers + [{"name": name, "about": about, "can be drawn": "yes"} for name, about in OWN.items()]


def _can(figure: PublishedFigure) -> str:
    return "yes" if figure.name in entries() else _why_not(figure)


def _why_not(figure: PublishedFigure) -> str:
    return "is not drawn here" if figure.data_like else "is a sketch and shows no data"
