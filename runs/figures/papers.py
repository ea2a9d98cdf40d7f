"""The figures of the papers, by name, and figures of no paper. Those that show no data are not drawn.

To add one: a file in this folder with a `Drawing`, and a line in `DRAWN`.
"""

import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

from clustering.foundation.errors import InputError, unknown
from runs.tables.papers.printed import PublishedFigure
from runs.tables.papers.published import figures

if TYPE_CHECKING:
    from runs.figures.drawing import AnyDrawing

DRAWN: Mapping[str, str] = {
    "thesis/0.1": "runs.figures.clusterings:PARTITIONS",
    "thesis/2.1": "runs.figures.clusterings:MODE_IMAGES",
    "thesis/2.2": "runs.figures.clusterings:ENERGY_BY_WEIGHT",
    "thesis/2.3": "runs.figures.clusterings:MODE_MOVEMENTS",
    "thesis/3.1": "runs.figures.fair:TRADE_OFF",
    "thesis/3.2": "runs.figures.fair:CONVERGENCE",
    "thesis/3.3": "runs.figures.fair:PARTITIONS",
    "thesis/4.1": "runs.figures.few_shot:TUNED_WEIGHT",
    "thesis/4.2": "runs.figures.few_shot:OBJECTIVE_TRACE",
    "entropy/1": "runs.figures.entropy:PARTITIONS",
    "entropy/2": "runs.figures.entropy:RANDOM_CUTS",
    "entropy/3": "runs.figures.entropy:MINIMA",
    "entropy/4": "runs.figures.entropy:BY_NORM",
    "entropy/5": "runs.figures.formulas:ENTROPIES",
    "entropy/7": "runs.figures.formulas:SUPERVISED",
    "entropy/8": "runs.figures.entropy:THREE",
    "entropy/9": "runs.figures.formulas:SIMPLEX",
    "entropy/10": "runs.figures.formulas:DIVERGENCES",
    "entropy/11": "runs.figures.entropy:LABEL_NOISE",
    "entropy/12": "runs.figures.entropy:UPDATES",
    "slk/1": "runs.figures.clusterings:MODE_IMAGES",
    "slk/2": "runs.figures.clusterings:ENERGY_BY_WEIGHT",
    "xsdc/3": "runs.figures.xsdc_curves:BY_LABELS",
    "xsdc/4": "runs.figures.xsdc_maps:STAGES",
    "xsdc/5": "runs.figures.xsdc_curves:BY_METRIC",
    "xsdc/6": "runs.figures.xsdc_curves:BY_ASSIGNMENT",
    "xsdc/7": "runs.figures.xsdc_maps:CONSTRAINED",
    "xsdc/8": "runs.figures.xsdc_curves:BY_COPIES",
    "xsdc/9": "runs.figures.xsdc_curves:BY_CONSTRAINTS",
    "xsdc/10": "runs.figures.xsdc_curves:BY_SHARE",
    "xsdc/11": "runs.figures.xsdc_curves:SENSITIVITY",
    "xsdc/12": "runs.figures.xsdc_curves:UNLABELLED",
    "xsdc/13": "runs.figures.xsdc_maps:EIGENGAPS",
    "slk_fewshot/1": "runs.figures.clusterings:ENERGY_BY_WEIGHT",
}
OWN: Mapping[str, tuple[str, str]] = {  # figures of no paper, with what they show
    "vlm/regimes": (
        "runs.figures.few_shot:REGIMES",
        "Accuracy of strategies with class names, by the number of classes present",
    ),
}


def drawing(name: str) -> "AnyDrawing":
    """The `Drawing` of a figure.

    Args:
        name: such as "thesis/4.1", without a benchmark.

    Raises:
        InputError: no figure has that name, or it cannot be drawn here; says why.
    """
    known = {figure.name: figure for figure in figures()}
    if name not in {**known, **OWN}:
        raise unknown("figure", name, {**known, **OWN})
    if name not in {**DRAWN, **OWN}:
        raise InputError(f"figure {name} cannot be drawn ({known[name].shows}): it {_why_not(known[name])}")
    module, _, attribute = (OWN[name][0] if name in OWN else DRAWN[name]).partition(":")
    return cast("AnyDrawing", getattr(importlib.import_module(module), attribute))


def listed() -> list[dict[str, str]]:
    """Name of every figure, what it shows, and whether it can be drawn: "yes", or why not."""
    of_papers = [{"name": figure.name, "about": figure.shows, "can be drawn": _can(figure)} for figure in figures()]
    return of_papers + [{"name": name, "about": about, "can be drawn": "yes"} for name, (_, about) in OWN.items()]


def _can(figure: PublishedFigure) -> str:
    return "yes" if figure.name in DRAWN else _why_not(figure)


def _why_not(figure: PublishedFigure) -> str:
    return "is not drawn here" if figure.data_like else "is a sketch and shows no data"
