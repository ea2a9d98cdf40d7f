"""Figures of clusterings: partitions, modes, and their movements (thesis, Chapter 2; Zhang and Boykov)."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from clustering.evaluation.profiles import principal_plane, relabelled_like
from clustering.foundation.errors import InputError
from runs.config.configs import ClusterConfig
from runs.figures.style import COLOURS, COLUMN, MARKERS, PAGE, count_steps, new_grid, scatter, series, styled
from runs.figures.titles import datasets, either, method_titles
from runs.stages.clustering.results import Clustered
from runs.stages.clustering.stage import points_of
from runs.stages.lineage import short

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Labels = NDArray[np.integer[Any]]
ACROSS = 3  # plots in a row
LARGER = 3  # factor of the area of marks other than dots
LONGEST = 24  # characters of a title in one line, without the accuracy
CLOSEST = 5  # neighbours whose clusters are compared with that of a point
NEAREST = 3  # pictures beside a mode
MOST = 20  # clusters at most, which fit on a page


def chosen_labels(result: Clustered) -> Labels:
    """(N,) clusters of the clustering chosen without labels."""
    return np.asarray(result.trials.labels[result.trials.chosen], dtype=np.int64)


def of_one_dataset(configs: Sequence[ClusterConfig]) -> None:
    """Check that all clusterings are of the same points."""
    if any(config.dataset != configs[0].dataset for config in configs):
        raise InputError(f"the figure is of one data set, not of {datasets(configs)}; give one")


def matched(labels: Labels, reference: Labels) -> Labels:
    """Labels renumbered as the classes of the reference, matched one to one so that they share most points. Labels
    without a class get further numbers."""
    of, true = (np.unique(one, return_inverse=True)[1] for one in (labels, reference))
    return relabelled_like(true, of, int(max(of.max(), true.max())) + 1)


@styled
def partitions_figure(
    values: NDArray[np.floating], partitions: Sequence[tuple[str, Labels]], classes: Labels | None
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
        for one in np.unique(places // len(COLOURS)):
            members = places // len(COLOURS) == one
            area = max(0.6, min(5, 8000 / len(plane))) * (1 if one == 0 else LARGER)
            scatter(axes, plane[members], places[members], marker=MARKERS[-one % len(MARKERS)], area=area)
        axes.set_title(title)
        axes.set_aspect("equal")
    for axes in plots:
        axes.set_axis_off()
    return figure


def _of(results: Sequence[Clustered], partitions: Sequence[tuple[str, Labels]]) -> "tuple[Figure, dict[str, str]]":
    """`partitions_figure` of results on the same points, and the words of its caption."""
    configs, data = [result.config for result in results], points_of(results[0].config)
    return partitions_figure(data.values, partitions, data.labels), {
        "data": datasets(configs),
        "points": f"{results[0].shape[0]:,}",
        "methods": ", ".join(method_titles(configs)),
        "starts": either(config.fits for config in configs),
    }


def partitions(results: Sequence[Clustered]) -> "tuple[Figure, dict[str, str]]":
    """A plot for each method, by rising weight of the norm: its clustering chosen without labels."""
    results = sorted(results, key=lambda one: one.config.method.options.get("margin_weight", 0.0))
    titles = method_titles([result.config for result in results])
    if len(max(titles, key=len)) > LONGEST:
        titles = [title.replace(", ", "\n", 1) for title in titles]
    plots = []
    for title, result in zip(titles, results, strict=True):
        scores = result.trials.scores
        accuracy = f", ACC {scores['acc_hungarian'][result.trials.chosen]:.2f}" if scores else ""
        plots.append((title + accuracy, chosen_labels(result)))
    most = max(int(labels.max()) + 1 for _, labels in plots)
    again = f" There are {len(COLOURS)} colours; further clusters have other marks." if most > len(COLOURS) else ""
    figure, words = _of(results, plots)
    return figure, words | {"marks": again}


def minima(results: Sequence[Clustered]) -> "tuple[Figure, dict[str, str]]":
    """Two plots for each method: its starts of lowest and of highest objective."""
    plots = []
    for title, result in zip(method_titles([result.config for result in results]), results, strict=True):
        trials = result.trials
        given = np.flatnonzero(trials.given)
        for one in (given[trials.objective[given].argmin()], given[trials.objective[given].argmax()]):
            plots.append((f"{title}: {trials.objective[one]:.4g}", trials.labels[one].astype(np.int64)))
    return _of(results, plots)


def together(result: Clustered) -> float:
    """Share of the `CLOSEST` nearest neighbours of the points that are in the same cluster."""
    from sklearn.neighbors import NearestNeighbors

    labels = chosen_labels(result)
    points = points_of(result.config).values
    indices = NearestNeighbors(n_neighbors=CLOSEST).fit(points).kneighbors(return_distance=False)
    return float((labels[indices] == labels[:, None]).mean())


def random_cuts(results: Sequence[Clustered]) -> "tuple[Figure, dict[str, str]]":
    """A plot for each training: by the number of views, then by seed."""

    def views(result: Clustered) -> int:
        return int(result.config.network.options["views"])

    results = sorted(results, key=lambda result: (views(result), result.config.seed))
    plots, shares = [], dict[str, list[float]]()
    for result in results:
        count = views(result)
        viewed, share = f"{count or 'no'} view{'' if count == 1 else 's'}", together(result)
        shares.setdefault(viewed, []).append(share)
        plots.append((f"{viewed}, seed {result.config.seed}: {share:.2f}", chosen_labels(result)))
    methods = ", ".join(dict.fromkeys(short(result.config.method) for result in results))
    found = "; ".join(f"{min(of):.2f} to {max(of):.2f} with {viewed}" for viewed, of in shares.items())
    figure, words = _of(results, plots)
    return figure, words | {"methods": methods, "closest": str(CLOSEST), "shares": found}


@styled
def mode_images_figure(values: NDArray[np.floating], labels: Labels, modes: Labels, size: tuple[int, int]) -> "Figure":
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
    values: NDArray[np.floating], labels: Labels, mode: int, cluster: int
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


def mode_images(results: Sequence[Clustered]) -> "tuple[Figure, dict[str, str]]":
    """Modes of the clustering chosen without labels."""
    (result,) = results
    config, data = result.config, points_of(result.config)
    if data.picture is None or data.channels > 1:
        raise InputError(f"{datasets([config])} has no grey pictures to draw; give one that has, as mnist")
    modes = result.trials.mode_indices
    if modes is None:
        raise InputError(f"the prototypes of {config.method.name} are no points of the data; give method=slk_byproduct")
    left_out = f" The first {MOST} of {result.n_clusters} clusters." if result.n_clusters > MOST else ""
    return mode_images_figure(data.values, chosen_labels(result), modes, data.picture), {
        "data": datasets([config]),
        "methods": method_titles([config])[0],
        "nearest": str(NEAREST),
        "starts": str(config.starts),
        "left_out": left_out,
    }


def of_one_clustering(configs: Sequence[ClusterConfig]) -> None:
    """Check that there is one clustering."""
    if len(configs) > 1:
        raise InputError("the figure is of one clustering; give one value where there are several")


@styled
def mode_movements(results: Sequence[Clustered]) -> "tuple[Figure, dict[str, str]]":
    """A plot for each clustering, with a line for each cluster: the distance that its mode moves in each update."""
    configs = [result.config for result in results]
    figure, (plots,) = new_grid(1, len(results), COLUMN if len(results) == 1 else PAGE, 2.4)
    several = len({short(config.dataset) for config in configs}) > 1
    for axes, title, result in zip(plots, method_titles(configs), results, strict=True):
        movements = result.trials.mode_movements
        if movements is None:
            raise InputError(
                f"{short(result.config.method)} records no movements of modes; give method=slk_byproduct,slk_mean_shift"
            )
        for k, moved in enumerate(movements.T):
            axes.plot(np.arange(1, len(moved) + 1), moved, **{**series(k), "markersize": 3, "linewidth": 0.9})
        axes.set_title(f"{title}, {short(result.config.dataset)}" if several else title)
        axes.set_ylim(bottom=0)
        count_steps(axes, "update of the modes")
    plots[0].set_ylabel("distance to the next place")
    return figure, {"data": datasets(configs), "starts": either(config.fits for config in configs)}
