"""The best and the worst start of a method side by side, with their objectives: a global minimum, as far as the starts
show, and a local one (Zhang and Boykov, Figure 3)."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from runs.config.configs import ClusterConfig
from runs.figures.clustered import method_titles, of_one_dataset, on_dataset
from runs.figures.drawing import Drawing
from runs.figures.entropy.partitions import BARS, LONG_STARTS
from runs.figures.thesis.partitions import clusterings, partitions_of
from runs.stages.clustering.results import Clustered
from runs.stages.clustering.stage import recorded_clustering

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw(results: Sequence[Clustered]) -> "Figure":
    """Two plots for each method: its starts of lowest and of highest objective."""
    plots = []
    for title, result in zip(method_titles([result.config for result in results]), results, strict=True):
        trials = result.trials
        given = np.flatnonzero(trials.given)
        for one in (given[trials.objective[given].argmin()], given[trials.objective[given].argmax()]):
            plots.append((f"{title}: {trials.objective[one]:.4g}", trials.labels[one].astype(np.int64)))
    return partitions_of(results, plots)


def caption(results: Sequence[Clustered]) -> str:
    """What is drawn, and over how many starts."""
    return (
        f"{clusterings(results)} the lowest and the highest objective, shown above; objectives of different methods "
        "are not comparable. Colours are those of the classes that clusters share most points with."
    )


DRAWING = Drawing(
    schema=ClusterConfig,
    settings={"method": f"kmeans,{LONG_STARTS}", "n_init": "1", "starts": "20", "selection": "null"},
    networks=(BARS,),
    elsewhere=on_dataset,
    check=of_one_dataset,
    read=recorded_clustering,
    draw=draw,
    caption=caption,
)
