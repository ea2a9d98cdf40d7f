"""Clusterings as rows of a table and JSON."""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from runs.stages.lineage import short

if TYPE_CHECKING:
    from runs.own_data.page import Written
    from runs.stages.clustering.results import Clustered

Varying = Callable[..., dict[str, str]]


def rows(results: "Sequence[Clustered]", varying: Varying) -> list[dict[str, str]]:
    """Return the rows of the results on one data set, with the keys that vary among the configs."""
    return [
        {
            "method": short(result.config.method),
            **_starts(result),
            **varying(result.config, leave_out=("method", "dataset", "method.n_init")),
            **_judgement(result),
            **_seconds(result),
            "": "reused" if result.reused else "new",
        }
        for result in results
    ]


def _starts(result: "Clustered") -> dict[str, str]:
    """Return the number of initialisations of each fit, for methods with the parameter `n_init`."""
    starts = result.config.flat().get("method.n_init")
    return {} if starts is None else {"n_init": str(starts)}


def _judgement(result: "Clustered") -> dict[str, str]:
    """Return the columns of scores: NMI (geometric mean) and accuracy after matching; else the objective."""
    metrics = result.trials.metrics()
    if "nmi" not in metrics:
        return {
            "objective\nlowest": _spread(metrics["objective"], math.nan, ".6g"),
            "\nmean": _spread(metrics["objective_mean"], metrics["objective_std"], ".6g"),
            "clusters\nfound": f"{metrics['clusters_found']:.0f}",
        }
    selected = {}
    if "accuracy" in metrics:
        spread = _spread(metrics["accuracy_mean"], metrics["accuracy_std"])
        selected = {"accuracy\nof unlabelled": spread}
    if "nmi_label_selected" in metrics:
        both = f"{metrics['nmi_label_selected']:.3f} {metrics['acc_hungarian_label_selected']:.3f}"
        selected = {"NMI ACC\nselected by labels": both}
    return selected | {
        "NMI ACC\nunsupervised": f"{metrics['nmi']:.3f} {metrics['acc_hungarian']:.3f}",
        "NMI\nover starts": _spread(metrics["nmi_mean"], metrics["nmi_std"]),
        "ACC\nover starts": _spread(metrics["acc_hungarian_mean"], metrics["acc_hungarian_std"]),
    }


def _spread(mean: float, deviation: float, form: str = ".3f") -> str:
    if math.isnan(mean):
        return ""
    return f"{mean:{form}}" if math.isnan(deviation) else f"{mean:{form}} ± {deviation:{form}}"


def _seconds(result: "Clustered") -> dict[str, str]:
    """Return the mean seconds per start."""
    metrics = result.trials.metrics()
    times = {"s\ngraph": "seconds_graph", "s\nseeding": "seconds_seeding", "s\noptimise": "seconds_optimise"}
    return {name: "" if math.isnan(metrics[key]) else f"{metrics[key]:.3g}" for name, key in times.items()}


def title(results: "Sequence[Clustered]") -> str:
    first = results[0]
    points, dimensions = (_all(result.shape[axis] for result in results) for axis in (0, 1))
    clusters = _all(result.n_clusters for result in results)
    parts = [f"{first.config.dataset.name}: {points} points of {dimensions} values, {clusters} clusters"]
    tried = {int(result.trials.tried.sum()) for result in results} - {0}
    if tried:
        count = " or ".join(str(number) for number in sorted(tried))
        trials = "trial" if tried == {1} else "trials"
        parts.append(f"selected by labels: best of {count} {trials}, by labels that are unknown in unsupervised use")
    parts.append(f"starts: {' or '.join(str(n) for n in sorted({int(r.trials.given.sum()) for r in results}))}")
    return "; ".join(parts)


def _all(numbers: Iterable[int]) -> str:
    return ", ".join(f"{number:,}" for number in dict.fromkeys(numbers))


def as_json(result: "Clustered", files: "Written | None") -> dict[str, Any]:
    """Return a result as a dictionary for JSON."""
    metrics = {name: value for name, value in result.trials.metrics().items() if math.isfinite(value)}
    selected = result.trials.selected
    return {
        "config": result.config.as_json(),
        **metrics,
        "selected": None if selected is None else dict(result.trials.settings[result.trials.setting[selected]]),
        "n_clusters": result.n_clusters,
        "points": result.shape[0],
        "key": result.key,
        "run": result.run_id,
        "reused": result.reused,
        **({} if files is None else files.record()),
    }
