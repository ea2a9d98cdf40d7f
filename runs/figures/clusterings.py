"""Figures of clusterings (thesis, Figures 0.1, 2.1, 2.2 and 2.3)."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from clustering.evaluation.profiles import principal_plane
from clustering.foundation.errors import InputError
from runs.config.configs import ClusterConfig
from runs.figures.accuracy_along import Along, Quantity, by_start
from runs.figures.clustered import chosen_labels, datasets, method_titles, of_one_dataset
from runs.figures.drawing import Drawing, either
from runs.figures.style import COLOURS, COLUMN, MARKERS, PAGE, new_grid, new_row, series, styled
from runs.stages.clustering.results import Clustered
from runs.stages.clustering.stage import points_of
from runs.stages.lineage import short

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
    return partitions_figure(data.values, partitions, data.labels)


def clusterings(results: Sequence[Clustered]) -> str:
    """Beginning of a caption: the data set, the methods and the number of starts."""
    configs = [result.config for result in results]
    starts = either(config.fits for config in configs)
    return (
        f"Clusterings of {datasets(configs)} ({results[0].shape[0]:,} points) by "
        f"{', '.join(method_titles(configs))}: of {starts} starts"
    )


def partitions_draw(results: Sequence[Clustered]) -> "Figure":
    """A plot for each method: its clustering chosen without labels."""
    titles = method_titles([result.config for result in results])
    if len(max(titles, key=len)) > LONGEST:
        titles = [title.replace(", ", "\n", 1) for title in titles]
    partitions = [
        (title + _accuracy(result), chosen_labels(result)) for title, result in zip(titles, results, strict=True)
    ]
    return partitions_of(results, partitions)


def partitions_caption(results: Sequence[Clustered]) -> str:
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


PARTITIONS = Drawing(schema=ClusterConfig, check=of_one_dataset, draw=partitions_draw, caption=partitions_caption)

ENERGY = Along(
    axis="weight λ",
    value=lambda result: float(result.config.method.options["weight"]),
    lines=lambda configs: method_titles(configs, leave_out=["weight"]),
    about="The discrete objective E of eq. 2.4, which counts each arc in both directions with the weight λ, for the "
    "labels and prototypes of each method. Below: accuracy under the best match of clusters and classes.",
    rows=(
        Quantity("discrete objective E", by_start("objective")),
        Quantity("accuracy (%)", by_start("acc_hungarian"), 100.0),
    ),
    over="starts, the same for all methods",
    ranges=True,
)


def energy_by_weight_check(configs: Sequence[ClusterConfig]) -> None:
    """Check that the methods have a weight.

    Raises:
        InputError: one has none.
    """
    for config in configs:
        if "weight" not in config.method.options:
            raise InputError(f"method {config.method.name} has no weight for the figure to vary; leave it out")


ENERGY_BY_WEIGHT = replace(ENERGY.drawing(), check=energy_by_weight_check)

NEAREST = 3
MOST = 20  # clusters at most, which fit on a page


@styled
def mode_images_figure(
    values: NDArray[np.floating],
    labels: NDArray[np.integer],
    modes: NDArray[np.integer],
    size: tuple[int, int],
) -> "Figure":
    """A column for each cluster with its mode, its mean, and the members nearest to the mode.

    Args:
        values: (N, D) pictures as rows of grey values, ink high.
        labels: (N,) clusters 0..K-1.
        modes: (K,) indices of the rows that are modes; -1 for a cluster without one.
        size: (height, width) of a picture, D in all.
    """
    clusters = [k for k in range(min(len(modes), MOST)) if (labels == k).any()]
    heading = ["mode", "mean", *(f"nearest {i + 1}" for i in range(NEAREST))]
    figure, grid = new_grid(len(heading), len(clusters), PAGE, PAGE / max(len(clusters), 8) * len(heading) + 0.2)
    for column, k in enumerate(clusters):
        pictures = cluster_pictures(values, labels, int(modes[k]), k)
        for axes, picture in zip((row[column] for row in grid), pictures, strict=False):
            axes.imshow(picture.reshape(size), cmap="gray_r", vmin=values.min(), vmax=values.max())
    for name, row in zip(heading, grid, strict=True):
        for axes in row:
            axes.set(xticks=[], yticks=[])
            axes.spines[:].set_visible(False)
        row[0].set_ylabel(name)
    return figure


def cluster_pictures(
    values: NDArray[np.floating], labels: NDArray[np.integer], mode: int, cluster: int
) -> list[NDArray[np.floating]]:
    """The mode, the mean, and the members nearest to the mode; without a mode (-1), a blank and the mean."""
    members = np.flatnonzero(labels == cluster)
    mean = values[members].mean(axis=0)
    if mode < 0:
        return [np.zeros_like(mean), mean]
    others = members[members != mode]
    distances = np.square(values[others] - values[mode]).sum(axis=1)
    nearest = others[np.argsort(distances, kind="stable")[:NEAREST]]
    return [values[mode], mean, *values[nearest]]


def mode_images_draw(results: Sequence[Clustered]) -> "Figure":
    """Draw the clustering chosen without labels.

    Raises:
        InputError: the points are no pictures, or the prototypes are no points.
    """
    (result,) = results
    data = points_of(result.config)
    if data.picture is None or data.channels > 1:
        raise InputError(f"{datasets([result.config])} has no grey pictures to draw; give one that has, as mnist")
    modes = result.trials.mode_indices
    if modes is None:
        name = result.config.method.name
        raise InputError(f"the prototypes of {name} are no points of the data; give method=slk_byproduct")
    return mode_images_figure(data.values, chosen_labels(result), modes, data.picture)


def mode_images_caption(results: Sequence[Clustered]) -> str:
    """What is drawn."""
    (result,) = results
    clusters = result.n_clusters
    left_out = f" The first {MOST} of {clusters} clusters." if clusters > MOST else ""
    return (
        f"Clusters of {datasets([result.config])} by {method_titles([result.config])[0]}, a column each: the mode, "
        f"which is one of the pictures, the mean of the cluster's pictures, and the {NEAREST} of them nearest to the "
        f"mode; the best of {result.config.starts} starts by the method's own criterion.{left_out}"
    )


def mode_images_check(configs: Sequence[ClusterConfig]) -> None:
    """Check that there is one clustering."""
    if len(configs) > 1:
        raise InputError("the figure is of one clustering; give one value where there are several")


MODE_IMAGES = Drawing(schema=ClusterConfig, check=mode_images_check, draw=mode_images_draw, caption=mode_images_caption)


@styled
def movements_figure(panels: Mapping[str, NDArray[np.floating]]) -> "Figure":
    """Draw a plot for each method, with a line for each cluster.

    Args:
        panels: (updates, K) Euclidean distance that each mode moves in each update, by title of the plot.
    """
    from matplotlib.ticker import MaxNLocator

    figure, plots = new_row(len(panels), COLUMN if len(panels) == 1 else PAGE, 2.4)
    for axes, (title, movements) in zip(plots, panels.items(), strict=True):
        steps = np.arange(1, len(movements) + 1)
        for k in range(movements.shape[1]):
            axes.plot(steps, movements[:, k], **{**series(k), "markersize": 3, "linewidth": 0.9})
        axes.set_title(title)
        axes.set_xlabel("update of the modes")
        axes.set_ylim(bottom=0)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.grid(axis="y", alpha=0.3)
    plots[0].set_ylabel("distance to the next place")
    return figure


def mode_movements_draw(results: Sequence[Clustered]) -> "Figure":
    """Draw a plot for each clustering.

    Raises:
        InputError: a method records no movements of modes.
    """
    return movements_figure(dict(zip(_titles(results), map(_movements, results), strict=True)))


def mode_movements_caption(results: Sequence[Clustered]) -> str:
    """Return a caption with the number of starts."""
    configs = [result.config for result in results]
    starts = either(config.fits for config in configs)
    return (
        "Euclidean distance from each cluster's mode to its place after the next update, a line for each cluster of "
        f"{datasets(configs)}; the best of {starts} starts by the method's own criterion."
    )


def _titles(results: Sequence[Clustered]) -> list[str]:
    configs = [result.config for result in results]
    names = method_titles(configs)
    several = len({short(config.dataset) for config in configs}) > 1
    return [
        f"{name}, {short(config.dataset)}" if several else name for name, config in zip(names, configs, strict=True)
    ]


def _movements(result: Clustered) -> NDArray[np.floating]:
    movements = result.trials.mode_movements
    if movements is None:
        raise InputError(
            f"{short(result.config.method)} records no movements of modes; give method=slk_byproduct,slk_mean_shift"
        )
    return movements


MODE_MOVEMENTS = Drawing(schema=ClusterConfig, draw=mode_movements_draw, caption=mode_movements_caption)
