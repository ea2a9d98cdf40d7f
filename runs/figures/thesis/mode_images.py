"""The mode of each cluster of pictures, its mean, and the pictures nearest to the mode (thesis, Figure 2.1)."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from clustering.foundation.errors import InputError
from runs.config.configs import ClusterConfig
from runs.figures.clustered import chosen_labels, datasets, method_titles, on_dataset
from runs.figures.drawing import Drawing
from runs.figures.style import PAGE, new_grid, styled
from runs.stages.clustering.results import Clustered
from runs.stages.clustering.stage import points_of, recorded_clustering

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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


def draw(results: Sequence[Clustered]) -> "Figure":
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


def caption(results: Sequence[Clustered]) -> str:
    """What is drawn."""
    (result,) = results
    clusters = result.n_clusters
    left_out = f" The first {MOST} of {clusters} clusters." if clusters > MOST else ""
    return (
        f"Clusters of {datasets([result.config])} by {method_titles([result.config])[0]}, a column each: the mode, "
        f"which is one of the pictures, the mean of the cluster's pictures, and the {NEAREST} of them nearest to the "
        f"mode; the best of {result.config.starts} starts by the method's own criterion.{left_out}"
    )


def check(configs: Sequence[ClusterConfig]) -> None:
    """Check that there is one clustering."""
    if len(configs) > 1:
        raise InputError("the figure is of one clustering; give one value where there are several")


DRAWING = Drawing(
    schema=ClusterConfig,
    settings={"method": "slk_byproduct", "selection": "null"},
    networks=({"dataset": "mnist", "normalize": "l2"},),
    elsewhere=on_dataset,
    check=check,
    read=recorded_clustering,
    draw=draw,
    caption=caption,
)
