"""Loss and accuracy of linear heads with pseudo-labels made for each batch or once an epoch, by the length of training
(Zhang and Boykov, Figure 12)."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from runs.config.configs import ClusterConfig
from runs.figures.accuracy_along import differences, draw_line
from runs.figures.clustered import datasets, on_dataset
from runs.figures.drawing import Drawing, either
from runs.figures.style import PAGE, new_row, series, styled
from runs.stages.clustering.results import Clustered
from runs.stages.clustering.stage import recorded_clustering
from runs.stages.lineage import short

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WHEN = {"batch": "for each batch", "epoch": "once an epoch"}
METHODS = {"entropy": "entropy clustering", "miadm": "MIADM"}
UPDATES = {
    "dataset": "mnist",
    "method": ",".join(METHODS),
    "pseudo_labels": ",".join(WHEN),
    "max_iter": "280,1400,2800,7000,14000",
    "batch_size": "250",
    "starts": "6",
    "selection": "null",
}
"""As in `experiment=entropy_updates`."""
Lines = dict[str, dict[float, dict[int, float]]]


def epochs(result: Clustered) -> float:
    """Epochs of a training."""
    options, (points, _) = result.config.method.options, result.shape
    return float(options["max_iter"]) / (points // min(int(options["batch_size"]), points))


def losses_and_accuracies(results: Sequence[Clustered]) -> tuple[Lines, Lines]:
    """Losses and accuracies of all starts, by method and kind of pseudo-labels, epochs, and random state."""
    losses: Lines = {}
    accuracies: Lines = {}
    for result in results:
        options, trials = result.config.method.options, result.trials
        name = short(result.config.method)
        line = f"{METHODS.get(name, name)}, {WHEN[str(options['pseudo_labels'])]}"
        at = epochs(result)
        for lines, values in ((losses, trials.objective), (accuracies, trials.scores.get("acc_hungarian"))):
            if values is not None:
                lines.setdefault(line, {}).setdefault(at, {}).update(_by_start(trials.seeds, values, trials.given))
    return losses, accuracies


def _by_start(seeds: NDArray[np.int64], values: NDArray[np.float64], given: NDArray[np.bool_]) -> dict[int, float]:
    return dict(zip(seeds[given].tolist(), values[given].tolist(), strict=True))


@styled
def draw(results: Sequence[Clustered]) -> "Figure":
    """Losses on the left, accuracies on the right; means over starts with their standard deviations."""
    figure, plots = new_row(2, PAGE, 2.6)
    names = ("loss (nats)", "accuracy (%)")
    for axes, lines, name, factor in zip(plots, losses_and_accuracies(results), names, (1.0, 100.0), strict=True):
        for i, (line, values) in enumerate(lines.items()):
            draw_line(axes, line, values, series(i), factor)
        axes.set_xlabel("epochs of the training")
        axes.set_ylabel(name)
        axes.set_xscale("log")
        ticks = sorted({at for values in lines.values() for at in values})
        axes.set_xticks(ticks, [f"{at:.3g}" for at in ticks])
        axes.minorticks_off()
        axes.grid(axis="y", alpha=0.3)
    figure.legend(*plots[0].get_legend_handles_labels(), loc="outside upper center", ncols=2)
    return figure


def caption(results: Sequence[Clustered]) -> str:
    """What is drawn, over how many starts, and the differences between lines."""
    _, accuracies = losses_and_accuracies(results)
    by_method = {
        method: {when: accuracies.get(f"{method}, {when}", {}) for when in WHEN.values()} for method in METHODS.values()
    }
    starts = {int(result.trials.given.sum()) for result in results}
    return (
        f"Linear heads on {datasets([result.config for result in results])} against the epochs of the training, whose "
        "steps become small towards its end: the loss of equation 14 over all points, and the accuracy. "
        "Pseudo-labels are made for each batch or once an epoch; the paper has 63 % and 52 % after 50 epochs, on "
        f"features that it does not name. Means and standard deviations over {either(starts)} "
        f"starts.{differences(by_method, WHEN['batch'])}"
    )


DRAWING: Drawing[ClusterConfig, Clustered] = Drawing(
    schema=ClusterConfig,
    settings={},
    networks=(UPDATES,),
    elsewhere=lambda name: UPDATES | {"max_iter": "7,35,70,175,350"} | on_dataset(name),
    read=recorded_clustering,
    draw=draw,
    caption=caption,
)
