"""Write the shipped results from a record of runs: results.csv, claims.csv, and the drawings of the figures.

    python reproduction/export.py [FOLDER] [RESULTS]

FOLDER is where they are written, else the folder of this file. RESULTS is the folder of the results, else that of
TRANSDUCE_RESULTS. The papers' tables, those on other data and those of experiments are exported, as far as they have
runs; of tables with the same numbers, the first.
"""

import csv
import math
import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from clustering.foundation.errors import InputError
from runs.cache import Store
from runs.figures.logged import file_stem
from runs.record.query import RunRow, read_runs
from runs.report.figures import read_figures
from runs.report.papers import RESULTS as SHOWN
from runs.report.papers import Reader
from runs.stages.stage import set_values
from runs.tables import shipped
from runs.tables.shipped import CLAIMS, FIELDS, FIGURES, RESULTS, made_by
from runs.tables.table import Cell, Table
from runs.track import Tracker

LEFT_OUT = {"vlm/regimes", "as_published"}  # large, or of cells that other tables have; compared with no print
UNSHOWN = ("seed", "device", "devices", "results", "output", "features_root", "root", "checkpoint")
ROUNDED = 9  # characters of a printed number, without an interval, beyond which it is unrounded
FINGERPRINT = re.compile(r"[0-9a-f]{16}$")  # the tag `features` of a training is a path
MARKS = re.compile(r"Intel\(R\) |\(R\)|\(TM\)|,| Processor| CPU")
Runs = Mapping[str, RunRow]


def export(tracker: Tracker, folder: Path) -> int:
    """Write the results of a record, and return the number of rows.

    Raises:
        InputError: there is no run, or a file cannot be written.
    """
    rows = read_runs(tracker, "")
    if not rows:
        raise InputError(f"{tracker.place}: no finished run; give another folder of results")
    shipped.PLACE = folder / "none"  # nothing of the files that are to be replaced
    reader = Reader([row for row in rows if row.experiment.startswith(SHOWN)], tracker)
    papers = reader.papers()
    tables = [table for paper in papers for table in paper.tables]
    tables += [table for paper in papers for others in paper.elsewhere.values() for table in others]
    figures = [figure for of_work in read_figures(rows, tracker, {}).values() for figure in of_work if figure.svg]
    try:
        (folder / FIGURES).mkdir(parents=True, exist_ok=True)
        for figure in figures:
            (folder / FIGURES / f"{file_stem(figure.name)}.svg").write_text(figure.svg, encoding="utf-8")
        return write(folder, [*tables, *reader.experiments({})], {row.run_id: row for row in rows})
    except OSError as error:
        raise InputError(f"{folder}: cannot be written ({error.strerror or error}); give another folder") from error


def write(folder: Path, tables: Iterable[Table], runs: Runs) -> int:
    """Write results.csv and claims.csv, and return the number of results."""
    kept = (table for table in tables if table.name.partition("@")[0] not in LEFT_OUT)
    filled = [table for table in kept if any(cell.results for cell in table.cells)]
    lines = [line for table in filled for line in result_lines(table, runs)]
    claims = [
        {"table": table.name, **{name: getattr(one, name) for name in FIELDS[CLAIMS][1:]}}
        for table in filled
        for one in table.findings
        if one.status != "not run"
    ]
    for name, content in ((RESULTS, lines), (CLAIMS, claims)):
        with (folder / name).open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, FIELDS[name], lineterminator="\n")
            writer.writeheader()
            writer.writerows(content)
    return len(lines)


def result_lines(table: Table, runs: Runs) -> Iterable[dict[str, str]]:
    """A line for each cell and seed of a table."""
    shown = table.compares  # the settings of the others are in their names, or in their files
    settings = {cell.place: _settings(cell) if shown else set() for cell in table.cells}
    common = set.intersection(*(settings[cell.place] for cell in table.cells if cell.results))
    for cell in table.cells:
        digits = 17 if len(cell.printed) > ROUNDED else 7
        for result in cell.results:
            tags = runs[result.run_id].tags
            headings = (table.name, *cell.place)
            width, as_printed = _number(result.half_width, 4), _number(result.as_printed, 7)
            numbers = (str(result.seed), _number(result.value, digits), width, str(result.tasks or ""), as_printed)
            origin = (
                made_by(cell.config, shown),
                " ".join(sorted(settings[cell.place] - common)),
                next((tags[name][:6] for name in ("features", "data") if FINGERPRINT.match(tags.get(name, ""))), ""),
                tags.get("code", "")[:7],
                MARKS.sub("", tags.get("machine", "")),
            )
            yield dict(zip(FIELDS[RESULTS], (*headings, *numbers, *origin), strict=True))


def _settings(cell: Cell) -> set[str]:
    """The settings of a cell that differ from the defaults, but for folders and what its result does not depend on."""
    values = {name: str(value) for name, value in set_values(cell.config).items()} if cell.config else {}
    kept = {name: text for name, text in values.items() if name.rpartition(".")[2] not in UNSHOWN}
    return {f"{name}={text}" for name, text in kept.items() if text not in ("none", "None", "same")}


def _number(value: float, digits: int) -> str:
    return "" if math.isnan(value) else f"{value:.{digits}g}"


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")


if __name__ == "__main__":
    if len(sys.argv) > 3:
        sys.exit("usage: reproduction/export.py [FOLDER] [RESULTS]")
    target = Path(sys.argv[1]) if sys.argv[1:] else Path(__file__).parent
    try:
        count = export(Tracker(Store(*sys.argv[2:]), say=_say), target)
    except InputError as error:
        sys.exit(f"export.py: {error}")
    _say(f"{count:,} results exported: {target}")
