"""Comparisons of strategies on the console and as files."""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from runs.config.configs import EvaluateConfig
from runs.console.output import Console
from runs.stages.lineage import short
from runs.tables import differences

if TYPE_CHECKING:
    from runs.cache import Store
    from runs.stages.comparison import Comparison


def show(comparisons: "Sequence[Comparison]", said: Console, *, by_class: bool) -> None:
    if said.as_json:
        said.json(
            [
                differences.as_json(comparison)
                | ({"classes": differences.class_records(comparison)} if by_class else {})
                for comparison in comparisons
            ]
        )
        return
    for comparison in comparisons:
        said.table(differences.rows(comparison), title=differences.title(comparison), right=differences.RIGHT)
        if by_class:
            said.table(
                differences.class_rows(comparison),
                title="classes with the largest gains and losses; classes are small, so some differ by chance",
                right=("queries", comparison.setting.strategies[comparison.setting.reference], *differences.RIGHT),
            )


def save(comparisons: "Sequence[Comparison]", name: str, store: "Store", said: Console, *, by_class: bool) -> None:
    from runs.figures import style
    from runs.figures.differences import differences_figure
    from runs.storage.disk import write_text

    store.tables.mkdir(parents=True, exist_ok=True)
    write_text(store.tables / f"{name}.md", differences.markdown(comparisons))
    write_text(store.tables / f"{name}.csv", differences.as_csv(comparisons))
    if by_class:
        write_text(store.tables / f"{name}-classes.csv", differences.classes_as_csv(comparisons))
    style.save(differences_figure(comparisons), store.tables / f"{name}.png")
    said.note(f"saved: {store.tables / name}.md, .csv{', -classes.csv' if by_class else ''} and .png")


def file_name(settings: Sequence[str], configs: Sequence[EvaluateConfig]) -> str:
    """Return the stem of the file names: the experiment, otherwise the benchmark and a hash of the configs."""
    experiments = [setting.partition("=")[2].strip() for setting in settings if setting.startswith("experiment=")]
    if experiments:
        return f"compare-{Path(experiments[0]).stem}"
    keys = "\n".join(sorted(" ".join(config.arguments()) for config in configs))
    return f"compare-{short(configs[0].benchmark)}-{hashlib.sha256(keys.encode()).hexdigest()[:8]}"
