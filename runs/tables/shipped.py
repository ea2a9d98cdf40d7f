"""The shipped results: the project's own runs, which tables show beside those of the user.

`reproduction/results.csv` has a row for each cell and seed, `reproduction/claims.csv` what came of the claims; a wheel
has both in `runs/reproduction`. `reproduction/export.py` writes them. A row fills the cell of its headings if the key
of the cell's config agrees: its settings, and the revisions of the classes that compute it.
"""

import csv
import dataclasses
import functools
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Literal, get_args

from clustering.foundation.errors import InputError
from runs.config.configs import EvaluateConfig
from runs.stages.given_features import given_fingerprint
from runs.tables.keys import cell_key
from runs.tables.table import Cell, Column, Config, Row, SeedResult, Table
from runs.tables.verdicts import ClaimStatus, Finding

RUNS = Path(__file__).resolve().parents[1]
PLACE = next((at for at in (RUNS, RUNS.parent) if (at / "reproduction").is_dir()), RUNS) / "reproduction"
RESULTS, CLAIMS, FIGURES = "results.csv", "claims.csv", "figures"
HEADINGS = ("table", "row_group", "row", "column_group", "column", "metric")
NUMBERS = ("seed", "value", "half_width", "tasks", "as_printed")
ORIGIN = ("config", "settings", "data", "commit", "machine")
FIELDS = {RESULTS: (*HEADINGS, *NUMBERS, *ORIGIN), CLAIMS: ("table", "claim", "setting", "status", "evidence")}
SHARES = ("accuracy", "nmi", "acc_hungarian", "ari")
Line = Mapping[str, str]
Place = tuple[Row, Column]


def shipped_results() -> "Shipped | None":
    """Return the shipped results; None if there are none.

    Raises:
        InputError: a file is damaged.
    """
    if not PLACE.exists():
        return None
    return _read(PLACE, *((PLACE / name).stat().st_mtime_ns if (PLACE / name).is_file() else 0 for name in FIELDS))


@functools.cache
def _read(place: Path, *changed: int) -> "Shipped":
    """Read the files once, and again when one has changed."""
    return Shipped({name: _lines(place / name) for name in FIELDS})


def _lines(path: Path) -> list[Line]:
    try:
        with path.open(encoding="utf-8", newline="") as file:
            reader = csv.DictReader(file, strict=True)
            lines: list[Line] = [*reader]
        ragged = any(None in (*line, *line.values()) for line in lines)
        if tuple(reader.fieldnames or ()) != FIELDS[path.name] or ragged:
            raise ValueError(f"its columns must be {','.join(FIELDS[path.name])}")
        for line in lines:
            (_result if path.name == RESULTS else _finding)(line)
    except (OSError, ValueError, csv.Error) as error:
        remedy = "restore this file of the checkout, as with `git restore`, or remove the folder"
        raise InputError(f"{path}: cannot be read ({error}); {remedy}") from error
    return lines


def _result(line: Line) -> SeedResult:
    value, width, printed = (float(line[name] or "nan") for name in ("value", "half_width", "as_printed"))
    return SeedResult(int(line["seed"]), value, width, int(line["tasks"] or 0), "", as_printed=printed)


def _finding(line: Line) -> Finding:
    status = next((known for known in get_args(ClaimStatus) if known == line["status"]), None)
    if status is None:
        raise ValueError(f"{line['status']!r} is no status of a claim")
    return Finding(line["claim"], _sources().get(line["claim"], ""), line["setting"], status, line["evidence"])


@functools.cache
def _sources() -> dict[str, str]:
    """Where each claim is made, by its text."""
    from runs.tables.claims import clustering, fair, few_shot

    return {claim.text: claim.source for claim in (*few_shot.CLAIMS, *clustering.CLAIMS, *fair.CLAIMS)}


def _unit(metric: str) -> Literal["%", "s", ""]:
    """The unit of a metric in a table of the shipped results alone."""
    return "s" if metric.startswith("seconds") else "%" if metric.startswith(SHARES) else ""


class Shipped:
    """The content of the files.

    Args:
        lines: the lines of each file.

    Attributes:
        names: of the tables with results: "thesis/3.2", "slk/2@usps", "entropy_labels".
    """

    def __init__(self, lines: Mapping[str, Iterable[Line]]) -> None:
        self._lines: dict[str, dict[tuple[str, ...], list[Line]]] = {}
        for line in lines[RESULTS]:
            place = tuple(line[name] for name in HEADINGS[1:])
            self._lines.setdefault(line["table"], {}).setdefault(place, []).append(line)
        self._claims: dict[str, list[Finding]] = {}
        for line in lines[CLAIMS]:
            self._claims.setdefault(line["table"], []).append(_finding(line))
        self.names = list(self._lines)

    def fill(self, table: Table) -> Table:
        """The table with the shipped results as its results. The findings on claims are given if all results of the
        table count."""
        known, cells, used = self._lines.get(table.name, {}), dict(table.cells), []
        for (row, column), cell in table.cells.items():
            lines = known.get((row.group, row.name, column.group, column.name, column.metric), [])
            if lines and cell.config and _agrees(lines[0], cell.config):
                cells[row, column] = dataclasses.replace(cell, results=tuple(map(_result, lines)))
                used += lines
        whole = len(used) == sum(map(len, known.values()))
        findings = self._claims.get(table.name, []) if whole else []
        notes = (*table.notes, *([_origin(used)] if used else []))
        return dataclasses.replace(table, cells=cells, findings=tuple(findings), notes=notes)

    def table(self, name: str, about: str) -> Table:
        """A table of the shipped results alone, without configs, such as one on other data."""
        cells: dict[Place, Cell] = {}
        used = []
        for (group, row, column_group, column, metric), lines in self._lines[name].items():
            heading = Column(column, column_group, metric, _unit(metric))
            cells[Row(row, group), heading] = Cell(None, results=tuple(map(_result, lines)))
            used += lines
        rows, columns = dict.fromkeys(row for row, _ in cells), dict.fromkeys(column for _, column in cells)
        findings = tuple(self._claims.get(name, ()))
        return Table(name, about, tuple(rows), tuple(columns), cells, notes=(_origin(used),), findings=findings)


def _agrees(line: Line, config: Config) -> bool:
    """Whether a result is of a config; files of features that are here must have its content."""
    if line["config"] != cell_key(config):
        return False
    if not isinstance(config, EvaluateConfig) or config.features is None or config.lacks_features:
        return True
    return given_fingerprint(config.feature_files, config.split, config.prompt).startswith(line["data"])


def _origin(lines: Iterable[Line]) -> str:
    """The commits and machines of results."""
    commits = sorted({line["commit"] or "unknown" for line in lines})
    machines = sorted({line["machine"] or "an unknown machine" for line in lines})
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
