"""The shipped results: the project's own runs, which tables show beside those of the user.

`reproduction/results.csv` has a row for each cell and seed, `reproduction/claims.csv` what came of the claims; a wheel
has both in `runs/reproduction`. `reproduction/export.py` writes them. A row fills the cell of its headings if its
settings and the revisions of the classes that compute it agree.
"""

import csv
import dataclasses
import functools
import math
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd

from clustering.foundation.errors import InputError
from runs.cache import raised
from runs.stages.lineage import revisions_of
from runs.tables.keys import Config, cell_key, features_here
from runs.tables.table import CLAIM_STATUSES, Cell, Column, Finding, Row, SeedResult, Table

RUNS = Path(__file__).resolve().parents[1]
PLACE = next((at for at in (RUNS, RUNS.parent) if (at / "reproduction").is_dir()), RUNS) / "reproduction"
RESULTS, CLAIMS, FIGURES = "results.csv", "claims.csv", "figures"
HEADINGS = ("table", "row_group", "row", "column_group", "column", "metric")
NUMBERS = ("seed", "value", "half_width", "tasks", "as_printed")
ORIGIN = ("config", "settings", "data", "commit", "machine")
FIELDS = {RESULTS: (*HEADINGS, *NUMBERS, *ORIGIN), CLAIMS: ("table", "claim", "setting", "status", "evidence")}
SHARES = ("accuracy", "nmi", "acc_hungarian", "ari")


def shipped_results() -> "Shipped | None":
    """Return the shipped results; None if there are none.

    Raises:
        InputError: a file is damaged.
    """
    return _read(PLACE) if PLACE.exists() else None


@functools.cache
def _read(place: Path) -> "Shipped":
    return Shipped(*(_frame(place / name) for name in FIELDS))


def _frame(path: Path) -> pd.DataFrame:
    """The rows of a file as text, but for numbers."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            header, *lines = csv.reader(file, strict=True)
        if (*header,) != FIELDS[path.name] or any(len(line) != len(header) for line in lines):
            raise ValueError(f"its columns must be {','.join(FIELDS[path.name])}")
        frame = pd.DataFrame(lines, columns=header)
        if path.name == CLAIMS and (unknown := {*frame["status"]} - {*CLAIM_STATUSES}):
            raise ValueError(f"{unknown.pop()!r} is no status of a claim")
        for name in NUMBERS if path.name == RESULTS else ():
            frame[name] = pd.to_numeric(frame[name])
        return frame.astype({"seed": int, "tasks": float}) if path.name == RESULTS else frame
    except (OSError, ValueError, csv.Error) as error:
        remedy = "restore this file of the checkout, as with `git restore`, or remove the folder"
        raise InputError(f"{path}: cannot be read ({error}); {remedy}") from error


@dataclasses.dataclass(frozen=True)
class Shipped:
    """The content of the files."""

    results: pd.DataFrame
    claims: pd.DataFrame

    @property
    def names(self) -> list[str]:
        """The tables with results: "thesis/3.2", "slk/2@usps", "entropy_labels"."""
        return list(self.results["table"].unique())

    def fill(self, table: Table) -> Table:
        """The table with the shipped results as its results. The findings on claims are given if all results of the
        table count."""
        known = self.results[self.results["table"] == table.name]
        wanted = [
            (place, *_headings(*place), shipped_key(config), features_here(config))
            for place, cell in table.cells.items()
            if (config := cell.config)
        ]
        if known.empty or not wanted:
            return table
        of_cell = ["place", *HEADINGS[1:], "config", "features"]
        used = known.merge(pd.DataFrame(wanted, columns=of_cell), on=of_cell[1:-1])
        # Files of features that are here must have the content of the runs.
        same = [now.startswith(then) or not now for now, then in zip(used["features"], used["data"], strict=True)]
        used = used[np.array(same, dtype=bool)]
        cells = dict(table.cells)
        for place, results in _results(used).items():
            cells[place] = dataclasses.replace(cells[place], results=results)
        findings = self._findings(table.name) if len(used) == len(known) else ()
        notes = (*table.notes, *([_origin(used)] if len(used) else []))
        return dataclasses.replace(table, cells=cells, findings=findings, notes=notes)

    def table(self, name: str, about: str) -> Table:
        """A table of the shipped results alone, without configs, such as one on other data."""
        known = self.results[self.results["table"] == name]
        headings: Any = known[[*HEADINGS[1:]]].itertuples(index=False)
        cells = {}
        by_place = _results(known.assign(place=list(headings)))
        for (group, row, column_group, column, metric), results in by_place.items():
            cells[Row(row, group), Column(column, column_group, metric, _unit(metric))] = Cell(None, results=results)
        return Table.of(name, about, cells, notes=(_origin(known),), findings=self._findings(name))

    def _findings(self, name: str) -> tuple[Finding, ...]:
        sources = _sources()
        rows = self.claims[self.claims["table"] == name].drop(columns="table").itertuples(index=False)
        return tuple(Finding(claim, sources.get(claim, ""), *rest) for claim, *rest in rows)


def shipped_key(config: Config) -> str:
    """The content of the column `config`: the key of a cell, and the revisions of its classes above 1."""
    return f"{cell_key(config)} {raised(revisions_of(config))}".strip()


def _headings(row: Row, column: Column) -> tuple[str, ...]:
    return row.group, row.name, column.group, column.name, column.metric


def _results(rows: pd.DataFrame) -> dict[Any, tuple[SeedResult, ...]]:
    """The results of each cell, by the column `place`."""
    found: dict[Any, list[SeedResult]] = {}
    for place, seed, value, width, tasks, printed in rows[["place", *NUMBERS]].itertuples(index=False):
        count = 0 if math.isnan(tasks) else int(tasks)
        found.setdefault(place, []).append(SeedResult(seed, value, width, count, "", as_printed=printed))
    return {place: tuple(results) for place, results in found.items()}


@functools.cache
def _sources() -> dict[str, str]:
    """Where each claim is made, by its text."""
    from runs.tables.claims import clustering, fair, few_shot

    return {claim.text: claim.source for claim in (*few_shot.CLAIMS, *clustering.CLAIMS, *fair.CLAIMS)}


def _unit(metric: str) -> Literal["%", "s", ""]:
    """The unit of a metric in a table of the shipped results alone."""
    return "s" if metric.startswith("seconds") else "%" if metric.startswith(SHARES) else ""


def _origin(rows: pd.DataFrame) -> str:
    """The commits and machines of results."""
    commits = sorted({commit or "unknown" for commit in rows["commit"]})
    machines = sorted({machine or "an unknown machine" for machine in rows["machine"]})
    return f"shipped: runs of commit {', '.join(commits)} on {'; '.join(machines)}"


def beside(own: Table, shipped: Table) -> Table:
    """The user's table with the shipped results beside its own.

    A cell without runs of the user gets the verdict of the shipped ones, and a claim that they do not decide gets the
    finding of the shipped ones.
    """
    cells = {}
    for place, cell in own.cells.items():
        other = shipped.cells[place]
        verdict = cell.verdict if cell.results or not other.results else other.verdict
        cells[place] = dataclasses.replace(cell, shipped=other.results, verdict=verdict)
    decided = {(one.claim, one.setting) for one in own.findings if one.status != "not run"}
    settled = [one for one in shipped.findings if one.status != "not run" and (one.claim, one.setting) not in decided]
    claims = {one.claim for one in settled}
    kept = [one for one in own.findings if one.status != "not run" or one.claim not in claims]
    notes = (*own.notes, *(note for note in shipped.notes if note not in own.notes))
    return dataclasses.replace(own, cells=cells, findings=(*kept, *settled), notes=notes)


def drawings() -> dict[str, str]:
    """The shipped drawings of figures, as SVG, by name: "thesis/3.1", "thesis/2.3@mnist"."""
    found = {}
    for path in sorted((PLACE / FIGURES).glob("*.svg")):
        svg = path.read_text(encoding="utf-8")
        found[svg.partition("<title>")[2].partition("</title>")[0]] = svg
    return found
