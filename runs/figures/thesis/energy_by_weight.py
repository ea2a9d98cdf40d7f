"""The discrete objective that methods reach, against the weight of the Laplacian (thesis, Figure 2.2)."""

from collections.abc import Sequence

from clustering.foundation.errors import InputError
from runs.config.configs import ClusterConfig
from runs.figures.accuracy_along import Along, Quantity, by_start
from runs.figures.clustered import method_titles, on_dataset
from runs.figures.drawing import Drawing
from runs.stages.clustering.results import Clustered
from runs.stages.clustering.stage import recorded_clustering

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


def check(configs: Sequence[ClusterConfig]) -> None:
    """Check that the methods have a weight.

    Raises:
        InputError: one has none.
    """
    for config in configs:
        if "weight" not in config.method.options:
            raise InputError(f"method {config.method.name} has no weight for the figure to vary; leave it out")


DRAWING: Drawing[ClusterConfig, Clustered] = Drawing(
    schema=ClusterConfig,
    settings={
        "method": "slk_mean_shift,lk",
        "weight": "0.1,0.25,0.5,1.0,1.5,2.0,3.0,4.0",
        "starts": "5",
        "selection": "null",
    },
    networks=({"dataset": "mnist_small", "normalize": "l2"},),
    elsewhere=on_dataset,
    check=check,
    read=recorded_clustering,
    draw=ENERGY.draw,
    caption=ENERGY.caption,
)
