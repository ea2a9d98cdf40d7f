"""The table of fair clusterings: objective and fairness at each weight."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from runs.stages.fair.results import FairResult
from runs.stages.fair.series import Series, fronts, series_of
from runs.stages.lineage import short

if TYPE_CHECKING:
    from runs.figures.logged import LoggedFigure
    from runs.own_data.page import Written

KINDS = {"kmeans": "K-means", "kmedian": "K-median", "ncut": "normalised cut"}
GROUPS_SHOWN = 6
LOST = ("clusters\nlost", "groups\nabsent", "not\nconverged")
"""Columns that are shown only if they are not empty."""
NUMBERS = {
    "objective\n": ("objective", ".6g", ".2g"),
    "price\n": ("price", ".3f", ""),
    "fairness\nerror": ("fairness_error", ".4f", ".4f"),
    "balance\nleast": ("balance_min", ".3f", ""),
    "\nmean": ("balance_mean", ".3f", ""),
}
"""Columns of numbers: attribute, and forms of the mean and of the deviation over seeds."""
ROUNDING = 1e-12
"""Deviations below this share of the mean are rounding."""


def rows(results: Sequence[FairResult], varying: Callable[..., Mapping[str, str]]) -> list[dict[str, str]]:
    """A row for each weight of each method, with mean and deviation where there are several seeds.

    Args:
        varying: gives the settings of a config that differ from the others, except those left out.
    """
    series = series_of(results)
    several, kinds = any(len(one.results) > 1 for one in series), {one.first.kind for one in series}
    on_front, held = fronts(series), len({one.comparable for one in series}) < len(series)
    left_out = ("method", "dataset", "fairness_weight", *(["seed"] if several else []))
    found = []
    for position, one in enumerate(series):
        names = {"method": short(one.first.config.method), **varying(one.first.config, leave_out=left_out)}
        names |= {"objective of": KINDS.get(one.first.kind, one.first.kind)} if len(kinds) > 1 else {}
        steps = range(len(one.weights))
        columns = {title: _spread(one, *how) for title, how in NUMBERS.items()}
        if held:
            columns["Pareto\nfront"] = ["yes" if step in on_front[position] else "" for step in steps]
        unsettled, runs = (one.values("converged") == 0).sum(axis=0), len(one.results)
        columns[LOST[0]] = [f"{n:.0f}" if n else "" for n in one.first.n_clusters - one.values("clusters").min(axis=0)]
        columns[LOST[1]] = [f"{n:.0f}" if n else "" for n in one.values("absent").max(axis=0)]
        columns[LOST[2]] = ["" if n == 0 else "yes" if runs == 1 else f"{n} of {runs}" for n in unsettled]
        seconds = f"{one.values('seconds').sum(axis=1).mean():.3g}"
        state = "reused" if all(result.reused for result in one.results) else "new"
        for step in steps:
            mark = " *" if step == one.chosen and len(one.weights) > 1 else "  "
            row = {"weight\n": f"{_number(one.weights[step], '.4g')} {mark}"}
            row |= {name: texts[step] for name, texts in columns.items()}
            first = names | row | {"s\n": seconds, "": state}
            found.append(first if step == 0 else first | dict.fromkeys([*names, "s\n", ""], ""))
    empty = [name for name in LOST if not any(row[name] for row in found)]
    return [{name: text for name, text in row.items() if name not in empty} for row in found]


def _spread(one: Series, name: str, form: str, deviation_form: str) -> list[str]:
    means, deviations = one.mean(name), one.deviation(name)
    deviations[deviations < ROUNDING * abs(means)] = 0
    return [
        _number(mean, form) + (f" ± {deviation:{deviation_form}}" if deviation_form and deviation >= 0 else "")
        for mean, deviation in zip(means, deviations, strict=True)
    ]


def _number(value: float, form: str) -> str:
    return "" if math.isnan(value) else f"{value:{form}}"


def title(results: Sequence[FairResult]) -> str:
    """The data set and its groups."""
    first, path = results[0], results[0].found
    sizes = [f"{name} {count:,}" for name, count in zip(path.group_names, path.group_sizes, strict=True)]
    if len(sizes) > GROUPS_SHOWN:
        sizes = [*sizes[: GROUPS_SHOWN - 1], f"and {len(sizes) - GROUPS_SHOWN + 1} more"]
    clusters = ", ".join(str(number) for number in dict.fromkeys(result.n_clusters for result in results))
    seeds = sorted({len(one.results) for one in series_of(results)} - {1})
    over = f"; mean (and standard deviation) over {' or '.join(map(str, seeds))} seeds" if seeds else ""
    return (
        f"{first.config.dataset.name}: {first.shape[0]:,} points of {first.shape[1]} values, {clusters} clusters; "
        f"groups: {', '.join(sizes)}; balance of the data {path.data_balance:.3f}{over}"
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
    if whole := dict.fromkeys(short(result.config.method) for result in single):
        same = "all points in one cluster, which is as fair as the data whatever the method does"
        lines.append(f"{', '.join(whole)}: {same}")
    return "\n".join(lines)


def as_json(result: FairResult, figure: "LoggedFigure", files: "Written | None") -> dict[str, Any]:
    """Return a result as a dictionary for JSON."""
    found = result.found
    numbers = [found.metrics(step) for step in range(len(found.weights))]
    return {
        "config": result.config.as_json(),
        "weights": [{name: value for name, value in of.items() if math.isfinite(value)} for of in numbers],
        "best": found.fairest,
        "groups": dict(zip(found.group_names.tolist(), found.group_sizes.tolist(), strict=True)),
        "target": found.target.tolist(),
        "data_balance": found.data_balance,
        "objective": result.kind,
        "n_clusters": result.n_clusters,
        "points": result.shape[0],
        "key": result.key,
        "run": result.run_id,
        "picture": str(figure.files[0]),
        "reused": result.reused,
        **({} if files is None else files.record()),
    }
