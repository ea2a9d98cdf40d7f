"""Clusters of a network without and with views of its points (Zhang and Boykov, Figure 2).

The paper names neither its network nor its points. The network here has random Fourier features of high frequency, so
that it can assign close points to different clusters; the points are two bars.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from runs.config.configs import ClusterConfig
from runs.figures.clustered import chosen_labels, datasets, of_one_dataset, on_dataset
from runs.figures.drawing import Drawing
from runs.figures.thesis.partitions import partitions_of
from runs.stages.clustering.results import Clustered
from runs.stages.clustering.stage import points_of, recorded_clustering
from runs.stages.lineage import short

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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


def draw(results: Sequence[Clustered]) -> "Figure":
    """A plot for each training: those without views first."""
    plots = []
    for result in in_order(results):
        count = views(result.config)
        viewed = f"{count} view{'' if count == 1 else 's'}" if count else "no views"
        title = f"{viewed}, seed {result.config.seed}: {together(result):.2f}"
        plots.append((title, chosen_labels(result)))
    return partitions_of(results, plots)


def caption(results: Sequence[Clustered]) -> str:
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


DRAWING = Drawing(
    schema=ClusterConfig,
    settings={
        "network": "waves",
        "method": "migd",
        "margin_weight": "0.0",
        "network.views": "0,3",
        "network.noise": "0.2",
        "network.batch_size": "200",
        "network.learning_rate": "0.003",
        "epochs": "100",
        "seed": "0,1,2",
        "selection": "null",
    },
    networks=({"dataset": "bars", "dataset.points": "100", "length": "3.0", "gap": "1.5"},),
    elsewhere=on_dataset,
    check=of_one_dataset,
    read=recorded_clustering,
    draw=draw,
    caption=caption,
)
