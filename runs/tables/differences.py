"""Comparisons of strategies as text: for the terminal, Markdown, CSV and JSON.

Fractions become percentage points, except in CSV and JSON.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from pandas import DataFrame

from clustering.files.tables import as_text
from fsl.evaluation.paired import Difference
from runs.stages.comparison import Comparison
from runs.stages.results import in_common
from runs.tables.formats import markdown_table

SHOWN = 5  # classes at each end of a strategy in the terminal
RIGHT = ("accuracy", "per class", "difference")


def title(comparison: Comparison) -> str:
    """What the strategies have in common, and the reference."""
    results = [result for of_strategy in comparison.results for result in of_strategy]
    seeds = f", {len(comparison.setting.seeds)} seeds" if len(comparison.setting.seeds) > 1 else ""
    reference = comparison.setting.strategies[comparison.setting.reference]
    return f"{in_common(results)}{seeds}; difference to {reference} in points"


def rows(comparison: Comparison) -> list[dict[str, str]]:
    """A row for each strategy; the reference has only its accuracy."""
    records = []
    differences = dict(comparison.against_reference())
    for i, name in enumerate(comparison.setting.strategies):
        row = {"strategy": name, "accuracy": f"{100 * comparison.accuracy(i):.2f} %"}
        if comparison.units == "queries":
            row["per class"] = f"{100 * comparison.per_class(i):.2f} %"
        records.append(
            row
            | {"difference": "reference"}
            | (_spell(differences[name], comparison.units) if name in differences else {})
        )
    return records


def _spell(difference: Difference, units: str) -> dict[str, str]:
    texts = {
        "difference": f"{100 * difference.mean:+.2f}",
        f"95 % over {units}": f"{100 * difference.low:+.2f} to {100 * difference.high:+.2f}",
    }
    if len(difference.seed_means) > 1:
        low, high = difference.mean - difference.seeds_half_width, difference.mean + difference.seeds_half_width
        texts["95 % over seeds"] = f"{100 * low:+.2f} to {100 * high:+.2f}"
        texts["by seed"] = ", ".join(f"{100 * mean:+.2f}" for mean in difference.seed_means)
    shares = (difference.better, difference.equal, difference.worse)
    texts["better / equal / worse"] = " / ".join(f"{100 * share:.1f}" for share in shares) + " %"
    return texts | {"": verdict(difference)}


def verdict(difference: Difference) -> str:
    """Whether every interval excludes 0, and on which side."""
    if difference.equal == 1:
        return "the same"
    if not difference.excludes_zero:
        return "undecided"
    return "better" if difference.mean > 0 else "worse"


def markdown(comparisons: Sequence[Comparison]) -> str:
    """A table of differences to the reference for each setting; of three or more strategies, also one of all pairs."""
    parts = []
    for comparison in comparisons:
        table = rows(comparison)
        parts += [f"{title(comparison)}.", markdown_table(table, right=RIGHT)]
        names = comparison.setting.strategies
        if len(names) > 2:
            pairs = [
                {"": name} | {other: _cell(comparison, i, j) for j, other in enumerate(names)}
                for i, name in enumerate(names)
            ]
            parts += [
                "Row minus column, in points; bold where every interval excludes 0.",
                markdown_table(pairs, right=names),
            ]
    return "\n\n".join(parts) + "\n"


def _cell(comparison: Comparison, i: int, j: int) -> str:
    if i == j:
        return ""
    difference = comparison.difference(i, j)
    text = f"{100 * difference.mean:+.2f}"
    return f"**{text}**" if difference.excludes_zero else text


def as_json(comparison: Comparison) -> dict[str, Any]:
    """Fractions. `differences` are to the reference, `pairs[a][b]` is a minus b."""
    names = comparison.setting.strategies
    pairs = {
        first: {second: _record(comparison.difference(i, j)) for j, second in enumerate(names) if j != i}
        for i, first in enumerate(names)
    }
    reference = names[comparison.setting.reference]
    return {
        "setting": comparison.setting.name,
        "seeds": list(comparison.setting.seeds),
        "tasks": comparison.tasks,
        "units": comparison.units,
        "strategies": [
            {
                "name": name,
                "accuracy": comparison.accuracy(i),
                "accuracy_per_class": comparison.per_class(i),
                "runs": [result.run_id for result in comparison.results[i]],
            }
            for i, name in enumerate(names)
        ],
        "reference": reference,
        "differences": {name: pairs[name][reference] for name in names if name != reference},
        "pairs": pairs,
    }


def _record(difference: Difference) -> dict[str, Any]:
    record = {
        "difference": difference.mean,
        "low": difference.low,
        "high": difference.high,
        "better": difference.better,
        "equal": difference.equal,
        "worse": difference.worse,
        "excludes_zero": difference.excludes_zero,
        "verdict": verdict(difference),
    }
    if not math.isnan(difference.seeds_half_width):
        record["seed_differences"] = list(difference.seed_means)
        record["seeds_half_width"] = difference.seeds_half_width
    return record


FIELDS = (
    *("setting", "strategy", "reference", "difference", "low", "high", "better", "equal", "worse", "excludes_zero"),
    *("units", "tasks", "seeds", "seeds_half_width", "strategy_runs", "reference_runs"),
)


def as_csv(comparisons: Sequence[Comparison]) -> str:
    """One line for every ordered pair of strategies, to be pivoted into a matrix. Numbers are fractions; run ids are
    separated by spaces."""
    lines = []
    for comparison in comparisons:
        record = as_json(comparison)
        runs = {strategy["name"]: " ".join(strategy["runs"]) for strategy in record["strategies"]}
        common = {key: record[key] for key in ("setting", "units", "tasks")} | {"seeds": len(record["seeds"])}
        for first, others in record["pairs"].items():
            for second, pair in others.items():
                names = {"strategy": first, "reference": second}
                of_both = {"strategy_runs": runs[first], "reference_runs": runs[second]}
                lines.append({**common, **names, **pair, **of_both})
    return DataFrame(lines, columns=FIELDS).to_csv(index=False, lineterminator="\n")


def class_records(comparison: Comparison) -> list[dict[str, Any]]:
    """Every class that has queries, for every strategy but the reference, from its largest gain to its largest loss."""
    reference = comparison.setting.reference
    asked, base = comparison.asked, comparison.by_class(reference)
    records = []
    for i, name in enumerate(comparison.setting.strategies):
        if i == reference:
            continue
        differences = comparison.by_class(i) - base
        order = sorted(np.flatnonzero(asked), key=lambda k: (-differences[k], k))
        records += [
            {
                "setting": comparison.setting.name,
                "strategy": name,
                "reference": comparison.setting.strategies[reference],
                "class": comparison.class_names[k],
                "queries": int(asked[k]),
                "accuracy": float(base[k] + differences[k]),
                "reference_accuracy": float(base[k]),
                "difference": float(differences[k]),
            }
            for k in order
        ]
    return records


def class_rows(comparison: Comparison) -> list[dict[str, str]]:
    """The classes in which each strategy gains most and loses most, for the console."""
    by_strategy: dict[str, list[dict[str, Any]]] = {}
    for record in class_records(comparison):
        by_strategy.setdefault(record["strategy"], []).append(record)
    return [
        {
            "strategy": record["strategy"],
            "class": record["class"],
            "queries": f"{record['queries']:,}",
            record["reference"]: f"{100 * record['reference_accuracy']:.2f} %",
            "accuracy": f"{100 * record['accuracy']:.2f} %",
            "difference": f"{100 * record['difference']:+.2f}",
        }
        for records in by_strategy.values()
        for record in (records if len(records) <= 2 * SHOWN else records[:SHOWN] + records[-SHOWN:])
    ]


def classes_as_csv(comparisons: Sequence[Comparison]) -> str:
    """One line for each class and strategy. Numbers are fractions. `as_text` keeps spreadsheets from reading names of
    classes as formulas."""
    records = [record for comparison in comparisons for record in class_records(comparison)]
    records = [{**record, "class": as_text(str(record["class"]))} for record in records]
    return DataFrame(records).to_csv(index=False, lineterminator="\n")
