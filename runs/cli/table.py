"""`transduce table`: an experiment's grid, read back from the record of runs."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from clustering.errors import InputError
from runs.cli.flags import Flags, describe
from runs.config import EvaluateConfig, parse
from runs.console import Console
from runs.groups import names

if TYPE_CHECKING:
    from runs.store import Store
    from runs.tables.grid import Table

FLAGS = ("json",)
ABOUT = """\
usage: transduce table NAME [key=value ...] [--flag ...]

Strategies by shots from the tracked runs of an experiment, mean over seeds: printed, and saved as Markdown and
CSV. Nothing is evaluated; a cell is filled only by runs whose every key agrees, the seed aside.
NAME is an experiment: {names}. A key changes what is asked for, as in tasks=2000.

flags:
{flags}

examples:
  transduce table quickstart
  transduce table omniglot --json
"""


def usage(settings: Sequence[str]) -> str:
    """The help of this verb."""
    return ABOUT.format(names=", ".join(names("experiment")), flags=describe(FLAGS))


def run(flags: Flags, console: Console) -> int:
    """Show the table that the settings name."""
    name, configs = _asked_for(flags.settings)
    from runs.store import Store
    from runs.tables.grid import read_table
    from runs.tracking import Tracker

    store = Store(configs[0].results)
    table = read_table(Path(name).stem, configs, Tracker(store, say=console.note))
    show(table, f"experiment={name}", store, console)
    return 0


def show(table: "Table", asked_for: str, store: "Store", console: Console) -> None:
    """Print the table of a setting, and save it as Markdown and CSV where it holds any result."""
    from runs.store import write_text
    from runs.tables import formats

    if console.as_json:
        console.json(formats.records(table))
    else:
        console.table(formats.rows(table), title=table.title, right=table.columns)
    for note in table.notes:
        console.note(note)
    if table.missing:
        console.note(f"{len(table.missing)} cells not run; to run them: transduce evaluate {asked_for}")
    if any(not math.isnan(cell.accuracy) for cell in table.cells.values()):
        with store.watched():
            store.tables.mkdir(parents=True, exist_ok=True)
            write_text(store.tables / f"{table.name}.md", formats.markdown(table))
            write_text(store.tables / f"{table.name}.csv", formats.as_csv(table))
        console.note(f"saved: {store.tables / table.name}.md and .csv")


def _asked_for(settings: Sequence[str]) -> tuple[str, list[EvaluateConfig]]:
    words = [word for word in settings if "=" not in word]
    if len(words) != 1:
        known = ", ".join(names("experiment"))
        raise InputError(f"say which table: transduce table NAME; there are {known}")
    return words[0], parse(EvaluateConfig, [f"experiment={words[0]}", *(s for s in settings if "=" in s)])
