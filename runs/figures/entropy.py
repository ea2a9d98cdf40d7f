"""Figures of runs of entropy clustering (Zhang and Boykov, Figures 1 to 4, 8, 11 and 12)."""

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from runs.config.configs import ClusterConfig
from runs.figures import clusterings as partitions
from runs.figures.accuracy_along import Along, Quantity, by_start, each
from runs.figures.clustered import chosen_labels, datasets, method_titles, of_one_dataset
from runs.figures.clusterings import clusterings, partitions_of
from runs.figures.drawing import Drawing
from runs.stages.clustering.results import Clustered
from runs.stages.clustering.stage import points_of
from runs.stages.lineage import short

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def partitions_draw(results: Sequence[Clustered]) -> "Figure":
    """K-means first, then entropy clustering by rising weight of the norm."""
    return partitions.partitions_draw(
        sorted(results, key=lambda one: one.config.method.options.get("margin_weight", 0.0))
    )


PARTITIONS = dataclasses.replace(partitions.PARTITIONS, draw=partitions_draw)


def minima_draw(results: Sequence[Clustered]) -> "Figure":
    """Two plots for each method: its starts of lowest and of highest objective."""
    plots = []
    for title, result in zip(method_titles([result.config for result in results]), results, strict=True):
        trials = result.trials
        given = np.flatnonzero(trials.given)
        for one in (given[trials.objective[given].argmin()], given[trials.objective[given].argmax()]):
            plots.append((f"{title}: {trials.objective[one]:.4g}", trials.labels[one].astype(np.int64)))
    return partitions_of(results, plots)


def minima_caption(results: Sequence[Clustered]) -> str:
    """What is drawn, and over how many starts."""
    return (
        f"{clusterings(results)} the lowest and the highest objective, shown above; objectives of different methods "
        "are not comparable. Colours are those of the classes that clusters share most points with."
    )


MINIMA = Drawing(schema=ClusterConfig, check=of_one_dataset, draw=minima_draw, caption=minima_caption)

CLOSEST = 5  # neighbours whose clusters are compared with that of a point


def together(result: Clustered) -> float:
    """Share of the `CLOSEST` nearest neighbours of the points that are in the same cluster."""
    from sklearn.neighbors import NearestNeighbors

    labels = chosen_labels(result)
    points = points_of(result.config).values
    indices = NearestNeighbors(n_neighbors=CLOSEST).fit(points).kneighbors(return_distance=False)
    return float((labels[indices] == labels[:, None]).mean())


def views(config: ClusterConfig) -> int:
    """Number of views of each point."""
    return int(config.network.options["views"])


def in_order(results: Sequence[Clustered]) -> list[Clustered]:
    """By the number of views, then by seed."""
    return sorted(results, key=lambda result: (views(result.config), result.config.seed))


def random_cuts_draw(results: Sequence[Clustered]) -> "Figure":
    """A plot for each training: those without views first."""
    plots = []
    for result in in_order(results):
        count = views(result.config)
        viewed = f"{count} view{'' if count == 1 else 's'}" if count else "no views"
        title = f"{viewed}, seed {result.config.seed}: {together(result):.2f}"
        plots.append((title, chosen_labels(result)))
    return partitions_of(results, plots)


def random_cuts_caption(results: Sequence[Clustered]) -> str:
    """What is drawn, and the shares of neighbours in one cluster."""
    configs = [result.config for result in results]
    methods = ", ".join(dict.fromkeys(short(config.method) for config in configs))
    shares = {
        count: [together(result) for result in in_order(results) if views(result.config) == count]
        for count in sorted({views(config) for config in configs})
    }
    found = "; ".join(
        f"{min(of):.2f} to {max(of):.2f} with {count or 'no'} view{'' if count == 1 else 's'}"
        for count, of in shares.items()
    )
    return (
        f"Clusters of {datasets(configs)} ({results[0].shape[0]:,} points) by a network trained by {methods} without "
        f"weight decay. The number is the share of the {CLOSEST} nearest neighbours of a point that are in its "
        f"cluster: {found}. A view is the point with normal noise, and the loss adds the divergence between the "
        "predictions of a point and its views. The paper names neither its network nor its points; this network has "
        "random Fourier features of high frequency (network=waves)."
    )


RANDOM_CUTS = Drawing(schema=ClusterConfig, check=of_one_dataset, draw=random_cuts_draw, caption=random_cuts_caption)

LOSSES = {
    "labelled": "cross-entropy",
    "labelled_reverse": "reverse",
    "labelled_absolute": "absolute error",
}


def loss(config: ClusterConfig) -> str:
    """Name of the loss of a training."""
    name = short(config.method)
    return LOSSES.get(name, name)


LABEL_NOISE = Along(
    axis="wrong labels (%)",
    value=lambda result: round(100 * result.config.wrong, 6),
    lines=each(loss),
    about="Accuracy of points whose label is not known against the share of known labels that are random. Both "
    "cross-entropies, forward and reverse, smooth labels by this share; the paper has the reverse one ahead where "
    "the share is large. Up to a factor the reverse one is the absolute error.",
).drawing()

WHEN = {"batch": "for each batch", "epoch": "once an epoch"}
METHODS = {"entropy": "entropy clustering", "miadm": "MIADM"}


def epochs(result: Clustered) -> float:
    """Epochs of a training."""
    options, (points, _) = result.config.method.options, result.shape
    return float(options["max_iter"]) / (points // min(int(options["batch_size"]), points))


def method(config: ClusterConfig) -> str:
    """Name of a method in the figure."""
    name = short(config.method)
    return METHODS.get(name, name)


UPDATES = Along(
    axis="epochs of the training",
    value=epochs,
    lines=each(lambda config: WHEN[str(config.method.options["pseudo_labels"])]),
    panel=method,
    about="Linear heads against the epochs of the training, whose steps become small towards its end: the loss of "
    "equation 14 over all points, and the accuracy. Pseudo-labels are made for each batch or once an epoch; the "
    "paper has 63 % and 52 % after 50 epochs, on features that it does not name.",
    rows=(
        Quantity("loss (nats)", by_start("objective")),
        Quantity("accuracy (%)", by_start("acc_hungarian"), 100.0),
    ),
    over="starts",
    logarithmic=True,
).drawing()
