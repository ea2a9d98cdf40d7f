"""Comparisons of strategies on the console, as JSON, and as the files that `transduce compare` saves.

Fractions become percentage points, except in CSV and JSON.
"""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pandas import DataFrame, concat

from clustering.files.tables import as_text
from fsl.evaluation.paired import Difference
from runs.config.configs import EvaluateConfig
from runs.console.output import Console
from runs.stages.comparison import Comparison
from runs.stages.lineage import short
from runs.stages.results import in_common
from runs.tables.formats import latex_table, latex_text, markdown_table

if TYPE_CHECKING:
    from runs.cache import Store

SHOWN = 5  # classes at each end of a strategy in the terminal
RIGHT = ("accuracy", "per class", "difference")


def show(comparisons: Sequence[Comparison], said: Console, *, by_class: bool) -> None:
    """Print comparisons as tables, or as JSON."""
    if said.as_json:
        named = ({"classes": classes(one).to_dict("records")} if by_class else {} for one in comparisons)
        said.json([as_json(one) | more for one, more in zip(comparisons, named, strict=True)])
        return
    for comparison in comparisons:
        said.table(rows(comparison), title=title(comparison), right=RIGHT)
        if by_class:
            reference = comparison.setting.strategies[comparison.setting.reference]
            about = "classes with the largest gains and losses; classes are small, so some differ by chance"
            of_strategy = [of for _, of in classes(comparison).groupby("strategy", sort=False)]
            ends = [of if len(of) <= 2 * SHOWN else concat([of.head(SHOWN), of.tail(SHOWN)]) for of in of_strategy]
            shown = concat(ends).drop(columns=["setting", "reference"])
            for name, sign in (("accuracy", ""), ("reference_accuracy", ""), ("difference", "+")):
                shown[name] = [f"{100 * value:{sign}.2f}{'' if sign else ' %'}" for value in shown[name]]
            shown["queries"] = [f"{count:,}" for count in shown["queries"]]
            shown = shown.rename(columns={"reference_accuracy": reference})
            lines: Any = shown.to_dict("records")
            said.table(lines, title=about, right=("queries", reference, *RIGHT))


def save(comparisons: Sequence[Comparison], name: str, store: "Store", said: Console, *, by_class: bool) -> None:
    """Write the Markdown, LaTeX, CSV and picture of comparisons into `results/tables`."""
    from runs.figures import style
    from runs.figures.intervals import differences_figure
    from runs.storage.disk import write_text

    store.tables.mkdir(parents=True, exist_ok=True)
    write_text(store.tables / f"{name}.md", markdown(comparisons))
    write_text(store.tables / f"{name}.tex", latex(comparisons, name))
    write_text(store.tables / f"{name}.csv", concat(map(pairs, comparisons)).to_csv(index=False, lineterminator="\n"))
    if by_class:
        write_text(store.tables / f"{name}-classes.csv", classes_as_csv(list(map(classes, comparisons))))
    style.save(differences_figure(comparisons), store.tables / f"{name}.png")
    said.note(f"saved: {store.tables / name}.md, .tex, .csv{', -classes.csv' if by_class else ''} and .png")


def file_name(settings: Sequence[str], configs: Sequence[EvaluateConfig]) -> str:
    """Return the stem of the file names: the experiment, otherwise the benchmark and a hash of the configs."""
    experiments = [setting.partition("=")[2].strip() for setting in settings if setting.startswith("experiment=")]
    if experiments:
        return f"compare-{Path(experiments[0]).stem}"
    keys = "\n".join(sorted(" ".join(config.arguments()) for config in configs))
    return f"compare-{short(configs[0].benchmark)}-{hashlib.sha256(keys.encode()).hexdigest()[:8]}"


def title(comparison: Comparison) -> str:
    """What the strategies have in common, and the reference."""
    results = [result for of_strategy in comparison.results for result in of_strategy]
    seeds = f", {len(comparison.setting.seeds)} seeds" if len(comparison.setting.seeds) > 1 else ""
    reference = comparison.setting.strategies[comparison.setting.reference]
    return f"{in_common(results)}{seeds}; difference to {reference} in points"


def rows(comparison: Comparison) -> list[dict[str, str]]:
    """A row for each strategy; the reference has only its accuracy."""
    records, differences = [], dict(comparison.against_reference())
    for i, name in enumerate(comparison.setting.strategies):
        row = {"strategy": name, "accuracy": f"{100 * comparison.accuracy(i):.2f} %"}
        if comparison.units == "queries":
            row["per class"] = f"{100 * comparison.per_class(i):.2f} %"
        row["difference"] = "reference"
        if (one := differences.get(name)) is not None:
            row["difference"] = f"{100 * one.mean:+.2f}"
            row[f"95 % over {comparison.units}"] = f"{100 * one.low:+.2f} to {100 * one.high:+.2f}"
            if len(one.seed_means) > 1:
                low, high = one.mean - one.seeds_half_width, one.mean + one.seeds_half_width
                row["95 % over seeds"] = f"{100 * low:+.2f} to {100 * high:+.2f}"
                row["by seed"] = ", ".join(f"{100 * mean:+.2f}" for mean in one.seed_means)
            shares = (f"{100 * share:.1f}" for share in (one.better, one.equal, one.worse))
            row |= {"better / equal / worse": f"{' / '.join(shares)} %", "": verdict(one)}
        records.append(row)
    return records


def verdict(difference: Difference) -> str:
    """Whether every interval excludes 0, and on which side."""
    if difference.equal == 1:
        return "the same"
    if not difference.excludes_zero:
        return "undecided"
    return "better" if difference.mean > 0 else "worse"


def markdown(comparisons: Sequence[Comparison]) -> str:
    """A table of differences to the reference for each setting; the CSV has those of all pairs."""
    tables = [(title(one), DataFrame(rows(one)).fillna("")) for one in comparisons]
    return "\n".join(f"{about}.\n\n{markdown_table([*of], of.to_numpy().tolist(), RIGHT)}\n" for about, of in tables)


def latex(comparisons: Sequence[Comparison], name: str) -> str:
    """The same in LaTeX, to be \\input; it needs the packages booktabs and longtable."""
    texts = []
    for i, one in enumerate(comparisons):
        frame = DataFrame(rows(one)).fillna("").map(latex_text)
        right = [column in RIGHT for column in frame]
        frame.columns = frame.columns.map(latex_text)
        texts.append(latex_table(frame, title(one), f"{name}-{i + 1}", right))
    return "".join(texts)


def pairs(comparison: Comparison) -> DataFrame:
    """One row for every ordered pair of strategies, to be pivoted into a matrix. Numbers are fractions; run ids are
    separated by spaces."""
    setting, records = comparison.setting, []
    runs = [" ".join(result.run_id for result in of_seeds) for of_seeds in comparison.results]
    for i, first in enumerate(setting.strategies):
        for j, second in enumerate(setting.strategies):
            if i != j:
                one = comparison.difference(i, j)
                records.append(
                    {"setting": setting.name, "strategy": first, "reference": second, "difference": one.mean}
                    | {name: getattr(one, name) for name in ("low", "high", "better", "equal", "worse")}
                    | {"excludes_zero": one.excludes_zero, "verdict": verdict(one), "units": comparison.units}
                    | {"tasks": comparison.tasks, "seeds": len(setting.seeds)}
                    | {"seeds_half_width": one.seeds_half_width, "strategy_runs": runs[i], "reference_runs": runs[j]}
                )
    return DataFrame(records)


def as_json(comparison: Comparison) -> dict[str, Any]:
    """The strategies, and a record for every ordered pair of them. Numbers are fractions."""
    setting, table = comparison.setting, pairs(comparison).drop(columns=["strategy_runs", "reference_runs"])
    strategies = [
        {
            "name": name,
            "accuracy": comparison.accuracy(i),
            "accuracy_per_class": comparison.per_class(i),
            "runs": [result.run_id for result in comparison.results[i]],
        }
        for i, name in enumerate(setting.strategies)
    ]
    return {
        "setting": setting.name,
        "seeds": list(setting.seeds),
        "reference": setting.strategies[setting.reference],
        "strategies": strategies,
        "pairs": table.astype(object).where(table.notna(), None).to_dict("records"),
    }


def classes(comparison: Comparison) -> DataFrame:
    """Every class that has queries, for every strategy but the reference, from its largest gain to its largest loss."""
    setting, base, asked = comparison.setting, comparison.by_class(comparison.setting.reference), comparison.asked
    parts = []
    for i, name in enumerate(setting.strategies):
        if i != setting.reference:
            accuracy = comparison.by_class(i)
            frame = DataFrame(
                {
                    "setting": setting.name,
                    "strategy": name,
                    "reference": setting.strategies[setting.reference],
                    "class": comparison.class_names,
                    "queries": asked,
                    "accuracy": accuracy,
                    "reference_accuracy": base,
                    "difference": accuracy - base,
                }
            )
            parts.append(frame[asked > 0].sort_values("difference", ascending=False, kind="stable"))
    return concat(parts)


def classes_as_csv(frames: Sequence[DataFrame]) -> str:
    """One line for each class and strategy. Numbers are fractions. `as_text` keeps spreadsheets from reading names of
    classes as formulas."""
    frame = concat(frames)
    frame["class"] = [as_text(str(name)) for name in frame["class"]]
    return frame.to_csv(index=False, lineterminator="\n")
