"""Maps of learned features at stages of the training (XSDC, Jones, Roulet and Harchaoui, Figures 4 and 7).

Each stage is a run of its own that ends there, of the same seed; the t-SNE map is made and stored by the run. Steps are
of constant size, so a run with fewer steps is the beginning of one with more.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from clustering.foundation.errors import InputError
from runs.config.configs import ClusterConfig
from runs.figures.accuracy_along import by_seed
from runs.figures.clustered import on_dataset
from runs.figures.drawing import Drawing, either
from runs.figures.style import COLOURS, PAGE, new_grid, styled
from runs.figures.xsdc.curves import ELSEWHERE, FOUR_OR_NINE, MNIST, MNIST_AT
from runs.stages.clustering.results import Clustered
from runs.stages.clustering.stage import recorded_clustering
from runs.stages.lineage import short

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ONE_SEED = {"seed": "1"}


def title(config: ClusterConfig) -> str:
    """Name of the stage at which a training ends."""
    options = config.method.options
    first, steps = options["supervised_steps"] if config.asked_labels() else 0, options["steps"]
    if not steps:
        return f"{first} supervised steps" if first else "untrained"
    return f"then {steps} steps on all" if first else f"{steps} steps"


@styled
def maps_figure(results: Sequence[Clustered]) -> "Figure":
    """Draw a row of maps for each data set and seed, in the order of the stages. A point is the number of its class.

    Raises:
        InputError: a run has no map, or the classes are unknown.
    """
    rows: dict[tuple[str, int], list[Clustered]] = {}
    for result in sorted(results, key=lambda result: _stage(result.config)):
        rows.setdefault((short(result.config.dataset), result.config.seed), []).append(result)
    across = max(map(len, rows.values()))
    figure, grid = new_grid(len(rows), across, PAGE, 0.2 + len(rows) * (PAGE / max(across, 3) + 0.25))
    for line, row in zip(grid, rows.values(), strict=True):
        for axes in line[len(row) :]:
            axes.set_axis_off()
        for axes, result in zip(line, row, strict=False):
            points, classes = result.trials.feature_map, result.trials.mapped_classes
            if points is None or classes is None:
                raise InputError(
                    f"run {result.run_id} has no map of points with classes; give map_points=2000, and data that "
                    "have classes"
                )
            for k in sorted(set(classes.tolist())):
                of = points[classes == k]
                colour = COLOURS[k % len(COLOURS)]
                axes.scatter(of[:, 0], of[:, 1], s=9, c=colour, marker=f"${k}$", linewidths=0, rasterized=True)
            axes.set_title(f"{title(result.config)}\naccuracy {100 * by_seed(result)[result.config.seed]:.1f} %")
            axes.set_xticks([])
            axes.set_yticks([])
            axes.spines[:].set(visible=True, color="0.8")
    return figure


def _stage(config: ClusterConfig) -> tuple[int, int]:
    options = config.method.options
    return int(options["supervised_steps"]), int(options["steps"])


def _drawing(known: Mapping[str, str], about: str) -> Drawing[ClusterConfig, Clustered]:
    """Return a figure of the stages of trainings with 50 labels.

    Args:
        known: settings of what else is known.
        about: what the figure shows, for the caption.
    """

    def stages(settings: Mapping[str, str], steps: str, points: int) -> list[dict[str, str]]:
        mapped = {**settings, **known, **ONE_SEED, "map_points": str(points)}
        return [mapped | {"steps": "0", "supervised_steps": "0"}, mapped | {"steps": steps}]

    def caption(results: Sequence[Clustered]) -> str:
        counts = either(len(found) for result in results if (found := result.trials.feature_map) is not None)
        return f"{about} t-SNE maps of the features of {counts} points of which nothing is known, as class numbers."

    return Drawing(
        schema=ClusterConfig,
        settings={},
        networks=stages({**MNIST, **MNIST_AT[0]}, "0,100,400", 2000),
        elsewhere=lambda name: stages({**ELSEWHERE, **on_dataset(name), "labels": "50"}, "0,20,60", 1000),
        read=recorded_clustering,
        draw=maps_figure,
        caption=caption,
    )


STAGES = _drawing({}, "Learned features at stages of the training with 50 labels.")
CONSTRAINED = _drawing(
    FOUR_OR_NINE,
    "Learned features at stages of the training with 50 labels, where it is also known of half the points whether "
    "their class is one of two. The map is of the other half.",
)
