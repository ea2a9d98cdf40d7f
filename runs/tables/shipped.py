"""The shipped results: the project's own runs, which tables show beside those of the user.

`reproduction/results.csv` has a row for each cell and seed, `reproduction/claims.csv` what came of the claims; a wheel
has both in `runs/reproduction`. `reproduction/export.py` writes them. A row fills the cell of its headings if its
settings and the revisions of the classes that compute it agree.
"""

import csv
import dataclasses
import functools
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd

from clustering.foundation.errors import InputError
from runs.cache import raised
from runs.stages.lineage import revisions_of
from runs.tables.keys import Config, cell_key, features_here
from runs.tables.table import CLAIM_STATUSES, Cell, Finding, SeedResult, Table

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
    """The rows of a file as text; with the `result` of each, if it is a file of results."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            header, *lines = csv.reader(file, strict=True)
        if (*header,) != FIELDS[path.name] or any(len(line) != len(header) for line in lines):
            raise ValueError(f"its columns must be {','.join(FIELDS[path.name])}")
        frame = pd.DataFrame(lines, columns=header)
        if path.name == CLAIMS and (unknown := {*frame["status"]} - {*CLAIM_STATUSES}):
            raise ValueError(f"{unknown.pop()!r} is no status of a claim")
        if path.name == RESULTS:
            results: Any = [_result(*numbers) for numbers in frame[[*NUMBERS]].itertuples(index=False)]
            frame["result"] = results
        return frame
    except (OSError, ValueError, csv.Error) as error:
        remedy = "restore this file of the checkout, as with `git restore`, or remove the folder"
        raise InputError(f"{path}: cannot be read ({error}); {remedy}") from error


def _result(seed: str, value: str, half_width: str, tasks: str, as_printed: str) -> SeedResult:
    width, scored = (float(text or "nan") for text in (half_width, as_printed))
    return SeedResult(int(seed), float(value or "nan"), width, int(tasks or 0), as_printed=scored)


@dataclasses.dataclass(frozen=True)
class Shipped:
    """The content of the files."""

    results: pd.DataFrame
    claims: pd.DataFrame

    @property
    def names(self) -> list[str]:
        """The tables with results: "thesis/3.2", "slk/2@usps", "entropy_labels"."""
        return list(self.results["table"].unique())

    def filled(self, table: Table) -> tuple[Table, list[Finding]]:
        """The table with the shipped results beside its own, and the findings on claims if all its results count."""
        known = self.results[self.results["table"] == table.name]
        wanted = [
            (*cell.place, made_by(cell.config), features_here(cell.config))
            for cell in (table.cells if len(known) else ())
            if cell.config
        ]
        used = known.merge(pd.DataFrame(wanted, columns=[*HEADINGS[1:], "config", "features"]))
        # Files of features that are here must have the content of the runs.
        used = used[[now.startswith(then) or not now for now, then in zip(used["features"], used["data"], strict=True)]]
        if not len(used):
            return table, []
        results = used.groupby([*HEADINGS[1:]])["result"].agg(tuple).to_dict()
        notes = dict.fromkeys([*table.notes, _origin(used)])
        filled = table.mapped(lambda cell: {"shipped": results.get(cell.place, ())}, notes=tuple(notes))
        return filled, self._findings(table.name) if len(used) == len(known) else []

    def table(self, name: str, about: str) -> Table:
        """A table of the shipped results alone, without configs, such as one on other data."""
        known = self.results[self.results["table"] == name]
        by_cell: Any = known.groupby([*HEADINGS[1:]], sort=False)["result"]
        cells = [
            Cell(**dict(zip(HEADINGS[1:], place, strict=True)), unit=_unit(place[-1]), results=tuple(results))
            for place, results in by_cell
        ]
        return Table(name, about, tuple(cells), notes=(_origin(known),), findings=tuple(self._findings(name)))

    def _findings(self, name: str) -> list[Finding]:
        from runs.tables.claims import CLAIMS

        sources = {claim.text: claim.source for claims in CLAIMS.values() for claim in claims}
        rows = self.claims[self.claims["table"] == name].drop(columns="table").itertuples(index=False)
        return [Finding(claim, sources.get(claim, ""), *rest) for claim, *rest in rows]


def made_by(config: Config | None, keyed: bool = True) -> str:
    """The content of the column `config`: the key of a cell if its table shows shipped results of the same settings
    only, and the revisions above 1 of the classes that compute it."""
    return f"{cell_key(config) if keyed else ''} {raised(revisions_of(config))}".strip() if config else ""


def _unit(metric: str) -> str:
    """The unit of a metric in a table of the shipped results alone."""
    return "s" if metric.startswith("seconds") else "%" if metric.startswith(SHARES) else ""


def _origin(rows: pd.DataFrame) -> str:
    """The commits and machines of results."""

    def each(values: Iterable[str], unknown: str) -> list[str]:
        return sorted({value or unknown for value in values})

    commits, machines = each(rows["commit"], "unknown"), each(rows["machine"], "an unknown machine")
    return f"shipped: runs of commit {', '.join(commits)} on {'; '.join(machines)}"


def drawings() -> dict[str, str]:
    """The shipped drawings of figures, as SVG, by name: "thesis/3.1", "thesis/2.3@mnist"."""
    texts = [path.read_text(encoding="utf-8") for path in sorted((PLACE / FIGURES).glob("*.svg"))]
    return {svg.partition("<title>")[2].partition("</title>")[0]: svg for svg in texts}
