"""Accuracy, and the objective, of clusterings along one of their settings: labels, weights, steps.

Figures of XSDC (Jones, Roulet and Harchaoui): the paper measures accuracy on a test set, at the step that is best on
10,000 labelled points for validation. Here it is measured on all points whose class is not known, after the last step.
Step sizes, numbers of copies and of clusters are those that the authors selected; figures of many runs take short ones,
of 20,000 digits.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd

from clustering.foundation.errors import InputError
from runs.config.configs import ClusterConfig
from runs.figures.lines import Bars, differences, lines_figure, summary
from runs.figures.titles import either, method_titles
from runs.stages.clustering.results import Clustered
from runs.stages.lineage import short

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ACCURACY = "accuracy (%)"
NAMES = {
    "labelled": "cross-entropy",
    "labelled_reverse": "reverse",
    "labelled_absolute": "absolute error",
    "entropy": "entropy clustering",
    "miadm": "MIADM",
    "batch": "for each batch",
    "epoch": "once an epoch",
    "pseudo_labels": "pseudo-labels",
    "deep_clustering": "deep clustering",
    "eigenvectors_kmeans": "eigenvectors with K-means",
}
"""Names of methods, losses, times of pseudo-labels, and ways to find the matrix M of XSDC."""


def accuracy(result: Clustered) -> float:
    """Accuracy in % of the clustering that is chosen without labels.

    Where labels are known, they name the clusters, and only points without a label count; else clusters and classes are
    matched as well as possible.
    """
    scores = result.trials.scores
    if not scores:
        raise InputError(f"dataset {result.config.dataset.name} has no classes for the figure to compare with")
    values = scores["accuracy" if "accuracy" in scores else "acc_hungarian"]
    return 100 * float(values[result.trials.chosen])


def values_of(result: Clustered, objective: str) -> pd.DataFrame:
    """The values of a clustering: quantity, pair (seed or start) and value.

    Args:
        objective: name of the objective, which is given with the accuracy for each start at the given setting; empty
            for the accuracy of the chosen start.
    """
    if not objective:
        return pd.DataFrame({"quantity": ACCURACY, "pair": [result.config.seed], "value": [accuracy(result)]})
    trials, scores = result.trials, result.trials.scores
    values = {objective: trials.objective} | ({ACCURACY: 100 * scores["acc_hungarian"]} if scores else {})
    starts = pd.DataFrame({"pair": trials.seeds} | values)[trials.given]
    return starts.melt("pair", var_name="quantity", value_name="value")


def stage(config: ClusterConfig) -> str:
    """Name of the training of a network by XSDC: all steps, or some of them."""
    options = config.method.options
    if options.get("steps"):
        both = options.get("supervised_steps") or not config.asked_labels()
        return "XSDC" if both else "without supervised steps"
    return "supervised steps alone" if options.get("supervised_steps") else "untrained"


def assignment(config: ClusterConfig) -> str:
    """Name of the way in which the matrix M is found."""
    rule = str(config.method.options["assignment"])
    return NAMES.get(rule, rule)


def metric(config: ClusterConfig) -> str:
    """Name of the similarity of fixed features."""
    name = str(config.method.options.get("metric", "")).replace("_", " ")
    return f"K-means, {name}" if name else "XSDC"


def constraints(config: ClusterConfig) -> str:
    """Name of the constraints known besides labels."""
    if config.links is not None:
        return f"{config.links} random pairs"
    return "labels alone" if config.coarse is None else f"membership of {{{', '.join(map(str, config.coarse))}}}"


def varied(config: ClusterConfig) -> str:
    """The setting that differs from the default; the default config is in the panel of the penalty."""
    options = config.method.options
    if options["supervised_step_size"] is not None:
        return "supervised_step_size"
    return "step_size" if options["step_size"] != 2.0**-6 else "penalty"


LINES: Mapping[str, Callable[[ClusterConfig], str]] = {  # names of lines and panels
    "data": lambda config: short(config.dataset),
    "method": lambda config: NAMES.get(short(config.method), short(config.method)),
    "pseudo-labels": lambda config: NAMES[str(config.method.options["pseudo_labels"])],
    "training": lambda config: "XSDC",
    "stage": stage,
    "assignment": assignment,
    "metric": metric,
    "constraints": constraints,
    "copies": lambda config: "balancing of copies" if config.method.options["copies"] > 1 else assignment(config),
    "varied": lambda config: varied(config).replace("_size", "").replace("_", " "),
}
PLACES: Mapping[str, Callable[[ClusterConfig, int], Any]] = {  # by the label of the x axis, of configs of N points
    "weight": lambda config, points: config.method.options["weight"],
    "wrong labels (%)": lambda config, points: round(100 * config.wrong, 6),
    "epochs of the training": lambda config, points: (
        config.method.options["max_iter"] / (points // min(config.method.options["batch_size"], points))
    ),
    "known labels": lambda config, points: config.asked_labels() or 0,
    "penalty": lambda config, points: config.method.options["penalty"],
    "share of digits 0 to 4": lambda config, points: config.dataset.options.get("share", 0.5),
    "setting": lambda config, points: config.method.options[varied(config)],
}
AXES: Mapping[str, str | Mapping[str, str]] = {  # labels of x axes that differ from the name of the places
    "weight": "weight λ",
    "setting": {"supervised step": "size of supervised steps", "step": "size of steps", "penalty": "penalty"},
}


def curves(
    results: Sequence[Clustered],
    *,
    x: str,
    line: str = "",
    panel: str = "data",
    objective: str = "",
    bars: Bars = "deviation",
    logarithmic: bool = False,
) -> "tuple[Figure, dict[str, str]]":
    """Draw a plot for each data set, with a line for each method.

    Args:
        x: position on the x axis: one of `PLACES`.
        line: name of the line of a config: one of `LINES`; empty for the title of its method.
        panel: name of the panel of a config: one of `LINES`.
        objective: name of the objective, which is drawn above the accuracy, both of all starts; empty for the accuracy
            of the chosen start of each seed.
        bars: what bars show, see `summary`.
        logarithmic: whether the x axis is logarithmic, of base 2.
    """
    configs = [result.config for result in results]
    names = [LINES[line](config) for config in configs] if line else method_titles(configs, leave_out=["weight"])
    frames = []
    for result, name in zip(results, names, strict=True):
        place = float(PLACES[x](result.config, result.shape[0]))
        frames.append(values_of(result, objective).assign(panel=LINES[panel](result.config), line=name, x=place))
    point = ["quantity", "panel", "line", "x"]
    frame = pd.concat(frames).drop_duplicates([*point, "pair"], keep="last")
    figure = lines_figure(summary(frame, bars), AXES.get(x, x), logarithmic=logarithmic)
    return figure, {
        "over": f"{either(frame.groupby(point).size())} {'starts' if objective else 'seeds'}",
        "differences": differences(frame[frame["quantity"] == ACCURACY]),
    }


def with_weights(configs: Sequence[ClusterConfig]) -> None:
    """Check that the methods have a weight."""
    for config in configs:
        if "weight" not in config.method.options:
            raise InputError(f"method {config.method.name} has no weight for the figure to vary; leave it out")
