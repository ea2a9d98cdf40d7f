"""Partitions of one data set by several methods, side by side (thesis, Figure 0.1)."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from clustering.evaluation.profiles import principal_plane
from runs.config.configs import ClusterConfig
from runs.figures.clustered import chosen_labels, datasets, method_titles, of_one_dataset, on_dataset
from runs.figures.drawing import Drawing, either
from runs.figures.style import COLOURS, MARKERS, PAGE, new_grid, styled
from runs.stages.clustering.results import Clustered
from runs.stages.clustering.stage import points_of, recorded_clustering

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ACROSS = 3  # plots in a row
LARGER = 3  # factor of the area of marks other than dots
LONGEST = 24  # characters of a title in one line, without the accuracy


@styled
def partitions_figure(
    values: NDArray[np.floating],
    partitions: Sequence[tuple[str, NDArray[np.integer]]],
    classes: NDArray[np.integer] | None,
) -> "Figure":
    """A plot for each partition. A cluster has the colour of the class that it shares most points with; where colours
    repeat, marks differ.

    Args:
        values: (N, D) points; with D > 2 their principal plane is drawn.
        partitions: title of each plot, and (N,) clusters.
        classes: (N,) true classes; None to match the colours to the first partition.
    """
    plane: NDArray[Any] = values if values.shape[1] == 2 else principal_plane(values)[0]
    down, across = -(-len(partitions) // ACROSS), min(ACROSS, len(partitions))
    wide, high = np.ptp(plane, axis=0)
    lines = 1 + max(title.count("\n") for title, _ in partitions)
    height = min(2.35, 0.9 * PAGE / across * float(high / max(wide, 1e-9)) + 0.25 * (lines + 1))
    figure, grid = new_grid(down, across, PAGE, height * down)
    plots = [axes for row in grid for axes in row]
    for axes, (title, labels) in zip(plots, partitions, strict=False):
        places = matched(labels, partitions[0][1] if classes is None else classes)
        rounds = places // len(COLOURS)
        for one in np.unique(rounds):
            members = rounds == one
            axes.scatter(
                plane[members, 0],
                plane[members, 1],
                s=max(0.6, min(5, 8000 / len(plane))) * (1 if one == 0 else LARGER),
                c=[COLOURS[place % len(COLOURS)] for place in places[members]],
                marker=MARKERS[-one % len(MARKERS)],
                linewidths=0,
                rasterized=True,
            )
        axes.set_title(title)
        axes.set_aspect("equal")
    for axes in plots:
        axes.set_axis_off()
    return figure


def matched(labels: NDArray[np.integer], reference: NDArray[np.integer]) -> NDArray[np.integer]:
    """Labels renumbered as the classes of the reference, matched one to one so that they share most points. Labels
    without a class get further numbers."""
    from scipy.optimize import linear_sum_assignment

    _, of = np.unique(labels, return_inverse=True)
    _, true = np.unique(reference, return_inverse=True)
    size = max(of.max(), true.max()) + 1
    table = np.zeros((size, size), dtype=np.int64)
    np.add.at(table, (of, true), 1)
    return np.asarray(linear_sum_assignment(-table)[1][of])


def partitions_of(results: Sequence[Clustered], partitions: Sequence[tuple[str, NDArray[np.integer]]]) -> "Figure":
    """`partitions_figure` of results on the same points."""
    of_one_dataset([result.config for result in results])
    data = points_of(results[0].config)
    dense = data.values if isinstance(data.values, np.ndarray) else data.values.toarray()
    return partitions_figure(dense, partitions, data.labels)


def clusterings(results: Sequence[Clustered]) -> str:
    """Beginning of a caption: the data set, the methods and the number of starts."""
    configs = [result.config for result in results]
    starts = either(config.fits for config in configs)
    return (
        f"Clusterings of {datasets(configs)} ({results[0].shape[0]:,} points) by "
        f"{', '.join(method_titles(configs))}: of {starts} starts"
    )


def draw(results: Sequence[Clustered]) -> "Figure":
    """A plot for each method: its clustering chosen without labels."""
    titles = method_titles([result.config for result in results])
    if len(max(titles, key=len)) > LONGEST:
        titles = [title.replace(", ", "\n", 1) for title in titles]
    partitions = [
        (title + _accuracy(result), chosen_labels(result)) for title, result in zip(titles, results, strict=True)
    ]
    return partitions_of(results, partitions)


def caption(results: Sequence[Clustered]) -> str:
    """What is drawn, and over how many starts."""
    most = max(int(chosen_labels(result).max()) + 1 for result in results)
    again = f" There are {len(COLOURS)} colours; further clusters have other marks." if most > len(COLOURS) else ""
    return (
        f"{clusterings(results)} the best by each method's own criterion. Colours are those of the classes that "
        f"clusters share most points with; ACC is the share of points in that class.{again}"
    )


def _accuracy(result: Clustered) -> str:
    trials = result.trials
    return f", ACC {trials.scores['acc_hungarian'][trials.chosen]:.2f}" if trials.scores else ""


DRAWING = Drawing(
    schema=ClusterConfig,
    settings={
        "method": "kmeans,lk,ncut,slk_mean_shift",
        "weight": "2.0",  # as bandwidth, from the demonstration by LK's authors
        "bandwidth": "0.3",
        "warm_start": "true",  # else each weight starts anew, and a path of weights changes little
        "weight_path": "null,[0.15,0.25,0.4,0.6,0.8]",
        "selection": "null",
    },
    networks=({"dataset": "spirals"},),
    elsewhere=on_dataset,
    check=of_one_dataset,
    read=recorded_clustering,
    draw=draw,
    caption=caption,
)
