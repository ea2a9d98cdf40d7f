"""The table of fair clusterings: objective and fairness at each weight."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from runs.stages.fair.results import FairResult
from runs.stages.fair.series import Series, fronts, series_of
from runs.stages.lineage import short

if TYPE_CHECKING:
    from runs.figures.logged import LoggedFigure
    from runs.own_data.page import Written

Varying = Callable[..., Mapping[str, str]]
KINDS = {"kmeans": "K-means", "kmedian": "K-median", "ncut": "normalised cut"}
GROUPS_SHOWN = 6
_ROUNDING = 1e-12
"""Deviations below this share of the mean are rounding."""


def rows(results: Sequence[FairResult], varying: Varying) -> list[dict[str, str]]:
    """A row for each weight of each method, with mean and deviation where there are several seeds.

    Args:
        varying: gives the settings of a config that differ from the others, except those left out.
    """
    series = series_of(results)
    several = any(len(one.results) > 1 for one in series)
    kinds = {one.first.kind for one in series}
    on_front = fronts(series)
    held = len({one.comparable for one in series}) < len(series)
    left_out = ("method", "dataset", "fairness_weight", *(["seed"] if several else []))
    table_rows = []
    for position, one in enumerate(series):
        names = {"method": short(one.first.config.method), **varying(one.first.config, leave_out=left_out)}
        if len(kinds) > 1:
            names["objective of"] = KINDS.get(one.first.kind, one.first.kind)
        columns = _columns(one)
        if held:
            columns["Pareto\nfront"] = ["yes" if step in on_front[position] else "" for step in range(len(one.weights))]
        columns |= _ends(one)
        for step in range(len(one.weights)):
            mark = " *" if step == one.chosen and len(one.weights) > 1 else "  "
            row = {
                "weight\n": f"{_number(one.weights[step], '.4g')} {mark:1}" if mark or one.weights[step] >= 0 else ""
            }
            row |= {name: texts[step] for name, texts in columns.items()}
            table_rows.append((names if step == 0 else dict.fromkeys(names, "")) | row)
    empty = [name for name in LOST if all(not row[name] for row in table_rows)]
    for row in table_rows:
        for name in empty:
            del row[name]
    return table_rows


LOST = ("clusters\nlost", "groups\nabsent", "not\nconverged")
"""Columns that are shown only if they are not empty."""


def title(results: Sequence[FairResult]) -> str:
    """The data set and its groups."""
    first, path = results[0], results[0].found
    sizes = [f"{name} {count:,}" for name, count in zip(path.group_names, path.group_sizes, strict=True)]
    if len(sizes) > GROUPS_SHOWN:
        sizes = [*sizes[: GROUPS_SHOWN - 1], f"and {len(sizes) - GROUPS_SHOWN + 1} more"]
    clusters = ", ".join(str(number) for number in dict.fromkeys(result.n_clusters for result in results))
    points, dimensions = first.shape
    seeds = sorted({len(one.results) for one in series_of(results)} - {1})
    over = f"; mean (and standard deviation) over {' or '.join(map(str, seeds))} seeds" if seeds else ""
    return (
        f"{first.config.dataset.name}: {points:,} points of {dimensions} values, {clusters} clusters; groups: "
        f"{', '.join(sizes)}; balance of the data {path.data_balance:.3f}{over}"
    )


def footnote(results: Sequence[FairResult]) -> str:
    """What the marks mean, and which methods put all points in one cluster; may be empty."""
    lines = []
    if any(len(one.weights) > 1 and one.chosen is not None for one in series_of(results)):
        lines.append("* the smallest weight that reaches the least fairness error, within 1 % of it or 1e-4")
    if not all(result.found.converged.all() for result in results):
        lines.append(
            "not converged: stopped by max_iter before the tolerance was reached (with several seeds, in how many); "
            "raise max_iter to continue"
        )
    single = [result for result in results if result.config.n_clusters != 1 and (result.found.clusters == 1).any()]
    if whole := [short(result.config.method) for result in single]:
        lines.append(
            f"{', '.join(dict.fromkeys(whole))}: all points in one cluster, which is as fair as the data whatever "
            "the method does"
        )
    return "\n".join(lines)


def _columns(one: Series) -> dict[str, list[str]]:
    shown = {
        "objective\n": ("objective", ".6g", ".2g"),
        "price\n": ("price", ".3f", ""),
        "fairness\nerror": ("fairness_error", ".4f", ".4f"),
        "balance\nleast": ("balance_min", ".3f", ""),
        "\nmean": ("balance_mean", ".3f", ""),
    }
    return {title: _spread(one, *how) for title, how in shown.items()}


def _ends(one: Series) -> dict[str, list[str]]:
    lost = one.first.n_clusters - one.values("clusters").min(axis=0)
    runs = len(one.results)
    unsettled = (one.values("converged") == 0).sum(axis=0)
    seconds = one.values("seconds").sum(axis=1).mean()
    state = "reused" if all(result.reused for result in one.results) else "new"
    rest = [""] * (len(one.weights) - 1)
    return {
        LOST[0]: _counts(lost),
        LOST[1]: _counts(one.values("absent").max(axis=0)),
        LOST[2]: ["" if count == 0 else "yes" if runs == 1 else f"{count} of {runs}" for count in unsettled],
        "s\n": [f"{seconds:.3g}", *rest],
        "": [state, *rest],
    }


def _counts(values: NDArray[np.float64]) -> list[str]:
    return [f"{value:.0f}" if value else "" for value in values]


def _spread(one: Series, name: str, form: str, deviation_form: str) -> list[str]:
    means, deviations = one.mean(name), one.deviation(name)
    deviations[deviations < _ROUNDING * abs(means)] = 0
    pairs = zip(means, deviations, strict=True)
    return [
        _number(mean, form) + (f" ± {deviation:{deviation_form}}" if deviation_form and deviation >= 0 else "")
        for mean, deviation in pairs
    ]


def _number(value: float, form: str) -> str:
    return "" if math.isnan(value) else f"{value:{form}}"


def as_json(result: "FairResult", figure: "LoggedFigure", files: "Written | None") -> dict[str, Any]:
    """Return a result as a dictionary for JSON."""
    trade_off = result.found
    finite = [
        {name: value for name, value in trade_off.metrics(step).items() if math.isfinite(value)}
        for step in range(len(trade_off.weights))
    ]
    return {
        "config": result.config.as_json(),
        "weights": finite,
        "best": trade_off.fairest,
        "groups": dict(zip(trade_off.group_names.tolist(), trade_off.group_sizes.tolist(), strict=True)),
        "target": trade_off.target.tolist(),
        "data_balance": trade_off.data_balance,
        "objective": result.kind,
        "n_clusters": result.n_clusters,
        "points": result.shape[0],
        "key": result.key,
        "run": result.run_id,
        "picture": str(figure.files[0]),
        "reused": result.reused,
        **({} if files is None else files.record()),
    }
