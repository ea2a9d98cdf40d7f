"""`transduce table`: the table of an experiment or a paper, read from the record of runs."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from clustering.foundation.errors import InputError, unknown
from runs.cli.flags import Flags, describe
from runs.cli.missing import FLAGS as MISSING
from runs.cli.missing import run_missing
from runs.config.configs import ClusterConfig, EvaluateConfig, parse
from runs.config.groups import names
from runs.console.output import Console

if TYPE_CHECKING:
    from runs.cache import Store
    from runs.tables.table import Config, Table

FLAGS = (*MISSING, "dry-run", "json")
ABOUT = """\
usage: transduce table NAME [key=value ...] [--flag ...]

Print and save a table of the tracked runs, as means over seeds, and check the papers' claims about it on the same runs.
Missing runs are only started with --run-missing. A run fills a cell only if all its keys match; the seeds are the
given ones, otherwise all in the record.
NAME is an experiment ({names}),
or a paper's table (transduce list tables), which shows the printed values beside the measured ones with a verdict for
each cell. thesis/4.4@glyphs is that table on another benchmark with a small backbone.
A key replaces a value of the table, as in tasks=2000; mini.root=FOLDER sets the folder of one benchmark's images.

flags:
{flags}

examples:
  transduce table quickstart
  transduce table all_strategies tasks=1000 --run-missing -y
  transduce table thesis/4.1 mini.root=FOLDER
  transduce table thesis/4.4@glyphs --run-missing --limit-minutes 30
"""


def usage(settings: Sequence[str]) -> str:
    """Return the help of this verb."""
    return ABOUT.format(names=", ".join(names("experiment")), flags=describe(FLAGS))


def run(flags: Flags, console: Console) -> int:
    """Show the table named in the settings."""
    name, settings = _requested(flags.settings)
    if not flags.run_missing and (flags.limit_minutes or flags.executor != "local"):
        raise InputError("--executor and --limit-minutes only apply to missing runs; add --run-missing")
    table = _empty(name, settings)
    from runs.cli.session import Session
    from runs.tables.evidence import look_up

    session = Session(table.configs, console, results=_results(table, settings))
    if flags.dry_run:
        Session(_planned(table, name, settings, console), console).show_plan()
        return 0
    code = run_missing(table.configs, session.store, session.tracker, console, flags) if flags.run_missing else 0
    table = look_up(table, session.tracker)
    show(table, " ".join(["table", name, *settings, "--run-missing"]), session.store, console)
    return code


def show(table: "Table", arguments: str, store: "Store", console: Console) -> None:
    """Print a table; save it in every format if there is any result.

    Args:
        arguments: the verb and settings that run the missing cells.
    """
    from runs.storage.disk import write_text
    from runs.tables.formats import FILES, records, terminal
    from runs.tables.papers.paper import is_paper, lacking_folders

    if console.as_json:
        console.json(records.as_json(table))
    else:
        terminal.show(table, console)
    for note in table.notes:
        console.note(note)
    if table.missing:
        of_paper = is_paper(table.name)
        waiting = [cell.config for cell in table.missing if cell.config and (cell.obstacle or not of_paper)]
        lacking = {folder for config in waiting for folder in lacking_folders(config)}
        if not of_paper and len(lacking) == 1:  # its keys have no names of data sets
            lacking = {lacking.pop().rpartition(".")[2]}
        command = " ".join(["transduce", arguments, *sorted(lacking)])
        shipped = any(cell.shipped for cell in table.missing)
        cells = "cells without runs of your own" if shipped else "missing cells"
        console.note(f"{len(table.missing)} {cells} can be run: {command}")
    if any(cell.results for cell in table.cells.values()):
        with store.watched():
            store.tables.mkdir(parents=True, exist_ok=True)
            for ending, text in FILES.items():
                write_text(store.tables / f"{table.file_name}.{ending}", text(table))
        *others, last = (f".{ending}" for ending in FILES)
        console.note(f"saved: {store.tables / table.file_name}{', '.join(others)} and {last}")


def _planned(table: "Table", name: str, settings: Sequence[str], console: Console) -> "Sequence[Config]":
    """Return the configs of a table that can be planned; for a paper's table, those with given folders of data.

    Raises:
        InputError: no config can be planned; the message names the folders.
    """
    from runs.tables.papers.paper import is_paper, lacking_folders

    if not is_paper(name):
        return table.configs
    folders = sorted({folder for config in table.configs for folder in lacking_folders(config)})
    planned = [config for config in table.configs if not lacking_folders(config)]
    if folders:
        command = " ".join(["transduce table", name, *settings, *folders, "--dry-run"])
        if not planned:
            raise InputError(f"{name}: the folders of its data are not given; add them: {command}")
        left_out = len(table.configs) - len(planned)
        console.note(
            f"{left_out} of {len(table.configs)} runs are skipped, because the folders of their data are not given; "
            f"add them: {command}"
        )
    return planned


def _requested(arguments: Sequence[str]) -> tuple[str, list[str]]:
    words = [word for word in arguments if "=" not in word]
    if len(words) != 1:
        known = ", ".join(names("experiment"))
        raise InputError(
            f"give the name of one table: transduce table NAME; names are the experiments {known}, and the papers' "
            "tables (transduce list tables), such as thesis/4.1"
        )
    return words[0], [setting for setting in arguments if "=" in setting]


def _empty(name: str, settings: Sequence[str]) -> "Table":
    from runs.tables.papers.paper import is_paper, paper_table

    if is_paper(name):
        from runs.tables.papers.published import published_names

        if name.partition("@")[0] not in published_names():
            raise unknown("table", name, [*published_names(), *names("experiment")])
        table = paper_table(name, settings)
    else:
        from runs.config.resolution import accepts
        from runs.tables.grid import clusterings_table, table_of

        known = name if name in names("experiment") else Path(name).stem
        typed = [f"experiment={name}", *settings]
        if accepts(ClusterConfig, name) and not accepts(EvaluateConfig, name):
            table = clusterings_table(known, parse(ClusterConfig, typed))
        else:
            table = table_of(known, parse(EvaluateConfig, typed))
    seeds = {config.seed for config in table.configs}
    if len(seeds) > 1 or any(setting.startswith("seed=") for setting in settings):
        return dataclasses.replace(table, seeds=tuple(sorted(seeds)))
    return table


def _results(table: "Table", settings: Sequence[str]) -> str | None:
    """Return the folder of results, also for a table without configs.

    Raises:
        InputError: a table without configs gets a setting other than results=.
    """
    if table.configs:
        return table.configs[0].results
    for setting in settings:
        if not setting.startswith("results="):
            raise InputError(f"{setting}: no cell of {table.name} can be run here; only results= may be given")
    return settings[-1].partition("=")[2] if settings else None
