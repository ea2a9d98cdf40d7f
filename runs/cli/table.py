"""`transduce table`: an experiment's grid, read back from the record of runs."""

import functools
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
    from runs.tables.claims import Verdict
    from runs.tables.grid import Table

FLAGS = ("run-missing", "dry-run", "json")
ABOUT = """\
usage: transduce table NAME [key=value ...] [--flag ...]

Strategies by tasks from the tracked runs of an experiment, mean over seeds, and what the papers claim of them
checked on the same runs: printed, and saved as Markdown and CSV. Nothing is evaluated unless --run-missing says so;
a cell is filled only by runs whose every key agrees, the seed aside.
NAME is an experiment: {names}. A key changes what is asked for, as in tasks=2000.

flags:
{flags}

examples:
  transduce table quickstart
  transduce table all_strategies tasks=1000 --run-missing
  transduce table omniglot --json
"""


def usage(settings: Sequence[str]) -> str:
    """The help of this verb."""
    return ABOUT.format(names=", ".join(names("experiment")), flags=describe(FLAGS))


def run(flags: Flags, console: Console) -> int:
    """Show the table that the settings name."""
    name, configs = _asked_for(flags.settings)
    from runs.cli.session import Session
    from runs.tables.claims import check, from_record
    from runs.tables.grid import read_table

    session = Session(configs, console)
    if flags.dry_run:
        session.show_plan()
        return 0
    if flags.run_missing:
        session.evaluation(configs, force=False)
    table = read_table(Path(name).stem, configs, session.tracker)
    verdicts = check(table, functools.partial(from_record, tracker=session.tracker))
    again = " ".join([f"table {name}", *(setting for setting in flags.settings if "=" in setting), "--run-missing"])
    show(table, again, session.store, console, verdicts)
    return 0


def show(table: "Table", again: str, store: "Store", console: Console, verdicts: "Sequence[Verdict]" = ()) -> None:
    """Print a table and the verdicts on claims, and save them as Markdown and CSV where there is any result.

    Args:
        again: the verb and settings that would evaluate what is missing.
    """
    from runs.store import write_text
    from runs.tables import formats

    if console.as_json:
        console.json({"cells": formats.records(table), "claims": formats.claims(verdicts)})
    else:
        console.table(formats.rows(table), title=table.title, right=table.columns)
        if verdicts:
            console.table(formats.claims(verdicts), title="what the papers claim")
    for note in table.notes:
        console.note(note)
    if table.missing:
        console.note(f"{len(table.missing)} cells not run; to run them: transduce {again}")
    if any(not math.isnan(cell.accuracy) for cell in table.cells.values()):
        with store.watched():
            store.tables.mkdir(parents=True, exist_ok=True)
            write_text(store.tables / f"{table.name}.md", formats.markdown(table, verdicts))
            write_text(store.tables / f"{table.name}.csv", formats.as_csv(table))
        console.note(f"saved: {store.tables / table.name}.md and .csv")


def _asked_for(settings: Sequence[str]) -> tuple[str, list[EvaluateConfig]]:
    words = [word for word in settings if "=" not in word]
    if len(words) != 1:
        known = ", ".join(names("experiment"))
        raise InputError(f"say which table: transduce table NAME; there are {known}")
    return words[0], parse(EvaluateConfig, [f"experiment={words[0]}", *(s for s in settings if "=" in s)])
