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
    "thesis/0.1": "runs.figures.thesis.partitions:DRAWING",
    "thesis/2.1": "runs.figures.thesis.mode_images:DRAWING",
    "thesis/2.2": "runs.figures.thesis.energy_by_weight:DRAWING",
    "thesis/2.3": "runs.figures.thesis.mode_movements:DRAWING",
    "thesis/3.1": "runs.figures.thesis.fair_trade_off:DRAWING",
    "thesis/3.2": "runs.figures.thesis.fair_convergence:DRAWING",
    "thesis/3.3": "runs.figures.thesis.fair_partitions:DRAWING",
    "thesis/4.1": "runs.figures.thesis.tuned_weight:DRAWING",
    "thesis/4.2": "runs.figures.thesis.objective_trace:DRAWING",
    "entropy/1": "runs.figures.entropy.partitions:PARTITIONS",
    "entropy/2": "runs.figures.entropy.random_cuts:DRAWING",
    "entropy/3": "runs.figures.entropy.minima:DRAWING",
    "entropy/4": "runs.figures.entropy.partitions:BY_NORM",
    "entropy/5": "runs.figures.entropy.formulas:ENTROPIES",
    "entropy/7": "runs.figures.entropy.formulas:SUPERVISED",
    "entropy/8": "runs.figures.entropy.partitions:THREE",
    "entropy/9": "runs.figures.entropy.simplex:DRAWING",
    "entropy/10": "runs.figures.entropy.formulas:DIVERGENCES",
    "entropy/11": "runs.figures.entropy.label_noise:DRAWING",
    "entropy/12": "runs.figures.entropy.updates:DRAWING",
    "slk/1": "runs.figures.thesis.mode_images:DRAWING",
    "slk/2": "runs.figures.thesis.energy_by_weight:DRAWING",
    "xsdc/3": "runs.figures.xsdc.curves:BY_LABELS",
    "xsdc/4": "runs.figures.xsdc.maps:STAGES",
    "xsdc/5": "runs.figures.xsdc.curves:BY_METRIC",
    "xsdc/6": "runs.figures.xsdc.curves:BY_ASSIGNMENT",
    "xsdc/7": "runs.figures.xsdc.maps:CONSTRAINED",
    "xsdc/8": "runs.figures.xsdc.curves:BY_COPIES",
    "xsdc/9": "runs.figures.xsdc.curves:BY_CONSTRAINTS",
    "xsdc/10": "runs.figures.xsdc.curves:BY_SHARE",
    "xsdc/11": "runs.figures.xsdc.curves:SENSITIVITY",
    "xsdc/12": "runs.figures.xsdc.curves:UNLABELLED",
    "xsdc/13": "runs.figures.xsdc.eigengaps:DRAWING",
    "slk_fewshot/1": "runs.figures.thesis.energy_by_weight:DRAWING",
}
OWN: Mapping[str, tuple[str, str]] = {  # figures of no paper, with what they show
    "vlm/regimes": (
        "runs.figures.vlm.regimes:DRAWING",
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
