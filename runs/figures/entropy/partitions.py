"""Long bars by K-means and by entropy clustering, along the weight of the norm (Zhang and Boykov, Figures 1, 4, 8)."""

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

from runs.config.configs import ClusterConfig
from runs.figures.clustered import on_dataset
from runs.figures.drawing import Drawing
from runs.figures.thesis import partitions
from runs.stages.clustering.results import Clustered

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LONG_STARTS = "entropy_margins"  # the method with long first weights
BARS = {"dataset": "bars"}


def draw(results: Sequence[Clustered]) -> "Figure":
    """K-means first, then entropy clustering by rising weight of the norm."""
    return partitions.draw(sorted(results, key=lambda one: one.config.method.options.get("margin_weight", 0.0)))


PARTITIONS: Drawing[ClusterConfig, Clustered] = dataclasses.replace(
    partitions.DRAWING,
    settings={"method": f"kmeans,{LONG_STARTS}", "n_init": "1", "starts": "20", "selection": "null"},
    networks=(BARS,),
    elsewhere=on_dataset,
    draw=draw,
)
BY_NORM = dataclasses.replace(
    PARTITIONS, networks=(BARS, BARS | {"method": LONG_STARTS, "margin_weight": "1e-6,1e-4,1e-3"})
)
THREE = dataclasses.replace(PARTITIONS, networks=(BARS | {"bars": "3", "around": "true"},))
