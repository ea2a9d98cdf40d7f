"""Long bars by K-means and by entropy clustering, along the weight of the norm (Zhang and Boykov, Figures 1, 4, 8)."""

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

from runs.config.configs import ClusterConfig
from runs.config.overrides import write
from runs.figures.clustered import Drawn, on_dataset
from runs.figures.drawing import Drawing
from runs.figures.thesis import partitions

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LONG_STARTS = "entropy_margins"  # the method
BARS = {"dataset": "bars"}
FOUND = 0.99  # accuracy of a clustering that has found the classes


def draw(results: Sequence[Drawn]) -> "Figure":
    """K-means first, then by the weight."""
    return partitions.draw(sorted(results, key=lambda one: one.config.method.options.get("margin_weight", 0.0)))


def caption(results: Sequence[Drawn]) -> str:
    """Which of them found the classes, besides."""
    found: dict[bool, list[str]] = {True: [], False: []}
    for result in results:
        trials, weight = result.clustered.trials, result.config.method.options.get("margin_weight")
        if trials.scores:
            name = "K-means" if weight is None else f"entropy clustering at margin_weight={write(weight)}"
            found[bool(trials.scores["acc_hungarian"][trials.chosen] >= FOUND)].append(name)
    told = [
        f" {words} {' and '.join(found[whole])}."
        for whole, words in ((True, "The classes are found by"), (False, "They are cut by"))
        if found[whole]
    ]
    return partitions.caption(results) + "".join(told)


PARTITIONS: Drawing[ClusterConfig, Drawn] = dataclasses.replace(
    partitions.DRAWING,
    settings={"method": f"kmeans,{LONG_STARTS}", "starts": "20", "selection": "null"},
    networks=(BARS,),
    elsewhere=on_dataset,
    draw=draw,
    caption=caption,
)
BY_NORM = dataclasses.replace(
    PARTITIONS, networks=(BARS, BARS | {"method": LONG_STARTS, "margin_weight": "1e-6,1e-4,1e-3"})
)
THREE = dataclasses.replace(PARTITIONS, networks=(BARS | {"bars": "3", "around": "true"},))
