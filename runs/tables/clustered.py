"""Clusterings as rows of a table and JSON."""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from runs.stages.lineage import short

if TYPE_CHECKING:
    from runs.own_data.page import Written
    from runs.stages.clustering.results import Clustered

TIMES = {"s\ngraph": "seconds_graph", "s\nseeding": "seconds_seeding", "s\noptimise": "seconds_optimise"}


def rows(results: "Sequence[Clustered]", varying: Callable[..., dict[str, str]]) -> list[dict[str, str]]:
    """Return the rows of the results on one data set, with the keys that vary among the configs."""
    found = []
    for result in results:
        metrics, starts = result.trials.metrics(), result.config.flat().get("method.n_init")
        row = {"method": short(result.config.method)} | ({} if starts is None else {"n_init": str(starts)})
        row |= varying(result.config, leave_out=("method", "dataset", "method.n_init"))
        row |= _scores(metrics) if "nmi" in metrics else _objectives(metrics)
        row |= {name: "" if math.isnan(metrics[key]) else f"{metrics[key]:.3g}" for name, key in TIMES.items()}
        found.append(row | {"": "reused" if result.reused else "new"})
    return found


def _objectives(metrics: dict[str, float]) -> dict[str, str]:
    """Return the columns of points without true classes."""
    return {
        "objective\nof the chosen start": _spread(metrics["objective"], math.nan, ".6g"),
        "\nmean": _spread(metrics["objective_mean"], metrics["objective_std"], ".6g"),
        "clusters\nfound": f"{metrics['clusters_found']:.0f}",
    }


def _scores(metrics: dict[str, float]) -> dict[str, str]:
    """Return the columns of scores: NMI (geometric mean) and accuracy after matching."""
    row = {}
    if "accuracy" in metrics:
        row["accuracy\nof unlabelled"] = _spread(metrics["accuracy_mean"], metrics["accuracy_std"])
    for name, end in (("selected by labels", "_label_selected"), ("unsupervised", "")):
        if f"nmi{end}" in metrics:
            row[f"NMI ACC\n{name}"] = f"{metrics[f'nmi{end}']:.3f} {metrics[f'acc_hungarian{end}']:.3f}"
    for name, key in (("NMI", "nmi"), ("ACC", "acc_hungarian")):
        row[f"{name}\nover starts"] = _spread(metrics[f"{key}_mean"], metrics[f"{key}_std"])
    return row


def _spread(mean: float, deviation: float, form: str = ".3f") -> str:
    if math.isnan(mean):
        return ""
    return f"{mean:{form}}" if math.isnan(deviation) else f"{mean:{form}} ± {deviation:{form}}"


def title(results: "Sequence[Clustered]") -> str:
    """The data set, the numbers of points and clusters, and those of trials and starts."""
    name, trials = results[0].config.dataset.name, [result.trials for result in results]
    points, dimensions = (_all(result.shape[axis] for result in results) for axis in (0, 1))
    parts = [f"{name}: {points} points of {dimensions} values, {_all(one.n_clusters for one in results)} clusters"]
    if tried := sorted({int(one.tried.sum()) for one in trials} - {0}):
        count = f"{' or '.join(map(str, tried))} trial{'' if tried == [1] else 's'}"
        parts.append(f"selected by labels: best of {count}, by labels that are unknown in unsupervised use")
    parts.append(f"starts: {' or '.join(map(str, sorted({int(one.given.sum()) for one in trials})))}")
    return "; ".join(parts)


def found_numbers(results: "Sequence[Clustered]") -> list[str]:
    """Lines about the numbers of clusters that were found rather than given, and the curve behind each."""
    lines = dict[str, None]()
    for result in results:
        if found := result.found_number:
            lines[f"number of clusters: {found.n_clusters}; the highest contrasts of numbers: {found.curve}"] = None
            lines |= {f"{found.doubts}; set n_clusters if it is known": None} if found.doubts else {}
    return list(lines)


def _all(numbers: Iterable[int]) -> str:
    return ", ".join(f"{number:,}" for number in dict.fromkeys(numbers))


def as_json(result: "Clustered", files: "Written | None") -> dict[str, Any]:
    """Return a result as a dictionary for JSON."""
    selected = result.trials.selected
    return {
        "config": result.config.as_json(),
        **{name: value for name, value in result.trials.metrics().items() if math.isfinite(value)},
        "selected": None if selected is None else dict(result.trials.settings[result.trials.setting[selected]]),
        "n_clusters": result.n_clusters,
        **({} if result.found_number is None else {"contrasts": result.found_number.contrasts.tolist()}),
        "points": result.shape[0],
        "key": result.key,
        "run": result.run_id,
        "reused": result.reused,
        **({} if files is None else files.record()),
    }
