"""`transduce compare`: compare strategies with a reference strategy on the same tasks."""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from clustering.foundation.errors import InputError
from runs.cli.flags import Flags
from runs.config import overrides
from runs.config.configs import EvaluateConfig, parse
from runs.console.output import Console
from runs.stages.lineage import short

if TYPE_CHECKING:
    from runs.cache import Store
    from runs.stages.comparison import Comparison

FLAGS = ("dry-run", "force", "json", "by-class")
ABOUT = """\
Compare strategies with a reference strategy, task by task: the mean difference in percentage points with a paired
bootstrap interval, and the share of tasks in which each strategy is better, equal or worse. The keys are those of
evaluate. Missing evaluations are run first; only strategies with the same tasks are compared. For three or more
strategies, all pairs are saved too. With several seeds there are two intervals: over tasks, for the given trained
networks, and over seeds (Student's t). The verdict is "better" or "worse" if every interval excludes 0.

  reference=NAME   the reference strategy (default: the first)"""
EXAMPLES = (
    "strategy=simpleshot,laplacianshot,slk_ms shot=1,5",
    "experiment=quickstart reference=laplacianshot",
    'strategy=simpleshot,laplacianshot weight=0.3,0.7 reference="laplacianshot weight=0.7"',
    "strategy=simpleshot,slk_ms seed=0,1,2",
    "strategy=simpleshot,slk_ms --by-class",
)


def usage(settings: Sequence[str]) -> str:
    """Return the help of this verb."""
    from runs.cli.usage import usage as write_usage

    _, others = _reference(settings)
    return write_usage("compare", ABOUT, EvaluateConfig, FLAGS, EXAMPLES, others)


def run(flags: Flags, console: Console) -> int:
    """Run the missing evaluations, then compare, print and save."""
    from runs.cli.session import Session
    from runs.stages.comparison import Comparison, settings

    reference, others = _reference(flags.settings)
    configs = parse(EvaluateConfig, others)
    grouped = settings(configs, reference)
    session = Session(configs, console)
    if flags.dry_run:
        session.show_plan()
        return 0
    results = session.evaluation(configs, force=flags.force)
    comparisons = [Comparison.of(setting, results) for setting in grouped]
    _show(comparisons, console, by_class=flags.by_class)
    _save(comparisons, _name(others, configs), session.store, console, by_class=flags.by_class)
    session.close()
    return 0


def _show(comparisons: "Sequence[Comparison]", console: Console, *, by_class: bool) -> None:
    from runs.tables import differences

    if console.as_json:
        console.json(
            [
                differences.as_json(comparison)
                | ({"classes": differences.class_records(comparison)} if by_class else {})
                for comparison in comparisons
            ]
        )
        return
    for comparison in comparisons:
        console.table(differences.rows(comparison), title=differences.title(comparison), right=differences.RIGHT)
        if by_class:
            console.table(
                differences.class_rows(comparison),
                title="classes with the largest gains and losses; classes are small, so some differ by chance",
                right=("queries", comparison.setting.strategies[comparison.setting.reference], *differences.RIGHT),
            )


def _save(comparisons: "Sequence[Comparison]", name: str, store: "Store", console: Console, *, by_class: bool) -> None:
    from runs.figures.differences import differences_figure
    from runs.figures.style import save
    from runs.storage.disk import write_text
    from runs.tables import differences

    with store.watched():
        store.tables.mkdir(parents=True, exist_ok=True)
        write_text(store.tables / f"{name}.md", differences.markdown(comparisons))
        write_text(store.tables / f"{name}.csv", differences.as_csv(comparisons))
        if by_class:
            write_text(store.tables / f"{name}-classes.csv", differences.classes_as_csv(comparisons))
        save(differences_figure(comparisons), store.tables / f"{name}.png")
    console.note(f"saved: {store.tables / name}.md, .csv{', -classes.csv' if by_class else ''} and .png")


def _reference(settings: Sequence[str]) -> tuple[str | None, list[str]]:
    """Split off the value of reference=NAME; returns it and the other settings."""
    references = [setting for setting in settings if setting.partition("=")[0].strip() == "reference"]
    if len(references) > 1:
        raise InputError("reference= is given twice; give one reference strategy")
    if not references:
        return None, list(settings)
    values = overrides.values(*overrides.split(references[0]))
    if len(values) > 1:
        raise InputError("reference= takes one strategy, not several; the others are compared with it")
    return values[0].text, [setting for setting in settings if setting not in references]


def _name(settings: Sequence[str], configs: Sequence[EvaluateConfig]) -> str:
    """Return the stem of the file names: the experiment, otherwise the benchmark and a hash of the configs."""
    experiments = [setting.partition("=")[2].strip() for setting in settings if setting.startswith("experiment=")]
    if experiments:
        return f"compare-{Path(experiments[0]).stem}"
    keys = "\n".join(sorted(" ".join(config.arguments()) for config in configs))
    return f"compare-{short(configs[0].benchmark)}-{hashlib.sha256(keys.encode()).hexdigest()[:8]}"
