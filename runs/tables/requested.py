"""The table that a command names: which one, what of it can be planned, and how it is shown and saved."""

import dataclasses
from collections.abc import Sequence
from shlex import join as command
from typing import TYPE_CHECKING

from clustering.foundation.errors import InputError, unknown
from runs.config.groups import names
from runs.console.output import Console
from runs.storage.disk import write_text
from runs.tables import formats
from runs.tables.grid import experiment_table
from runs.tables.keys import Config
from runs.tables.paper import lacking_folders, paper_table
from runs.tables.published import published_names
from runs.tables.table import Table, is_paper

if TYPE_CHECKING:
    from runs.cache import Store


def table_named(name: str, settings: Sequence[str]) -> Table:
    """The table of a paper or an experiment, without results."""
    if is_paper(name):
        if name.partition("@")[0] not in published_names():
            raise unknown("table", name, [*published_names(), *names("experiment")])
        found = paper_table(name, settings)
    else:
        found = experiment_table(name, settings)
    seeds = {config.seed for config in found.configs}
    asked = len(seeds) > 1 or any(setting.startswith("seed=") for setting in settings)
    return dataclasses.replace(found, seeds=tuple(sorted(seeds)) if asked else ())


def results_of(table: Table, settings: Sequence[str]) -> str | None:
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


def planned(table: Table, name: str, settings: Sequence[str], said: Console) -> Sequence[Config]:
    """Return the configs of a table that can be planned; for a paper's table, those with given folders of data.

    Raises:
        InputError: no config can be planned; the message names the folders.
    """
    lacking = [lacking_folders(config) if table.is_paper else [] for config in table.configs]
    found = [config for config, folders in zip(table.configs, lacking, strict=True) if not folders]
    if folders := sorted({folder for one in lacking for folder in one}):
        words = command(["transduce", "table", name, *settings, *folders, "--dry-run"])
        if not found:
            raise InputError(f"{name}: the folders of its data are not given; add them: {words}")
        left_out = f"{len(table.configs) - len(found)} of {len(table.configs)} runs are skipped"
        said.note(f"{left_out}, because the folders of their data are not given; add them: {words}")
    return found


def show_table(table: Table, words: Sequence[str], store: "Store", said: Console) -> None:
    """Print a table; save it in every format if there is any result.

    Args:
        words: the verb and settings that run the missing cells.
    """
    if said.as_json:
        said.json(formats.as_json(table))
    else:
        formats.show(table, said)
    for note in table.notes:
        said.note(note)
    if table.missing:
        waiting = [cell.config for cell in table.missing if cell.config and (cell.obstacle or not table.is_paper)]
        lacking = {folder for config in waiting for folder in lacking_folders(config)}
        if not table.is_paper and len(lacking) == 1:  # its keys have no names of data sets
            lacking = {lacking.pop().rpartition(".")[2]}
        shipped = any(cell.shipped for cell in table.missing)
        cells = f"{len(table.missing)} {'cells without runs of your own' if shipped else 'missing cells'}"
        said.note(f"{cells} can be run: {command(['transduce', *words, *sorted(lacking)])}")
    if any(cell.results for cell in table.cells):
        store.tables.mkdir(parents=True, exist_ok=True)
        for ending, text in formats.FILES.items():
            write_text(store.tables / f"{table.file_name}.{ending}", text(table))
        *others, last = (f".{ending}" for ending in formats.FILES)
        said.note(f"saved: {store.tables / table.file_name}{', '.join(others)} and {last}")
