"""Tables of the papers filled with made-up runs: what renders a table needs no record."""

import dataclasses
import functools
import math

from clustering.foundation.streams import stream
from runs.config.configs import EvaluateConfig, parse
from runs.tables.papers.paper import judged, paper_table
from runs.tables.papers.published import Value
from runs.tables.table import Cell, Column, Finding, Row, SeedResult, Table, Verdict

FINDINGS = (
    Finding("LaplacianShot is better than SimpleShot", "thesis Tables 4.1, 4.2", "1-shot", "holds", "+3.97"),
    Finding("100 % of a_b < {c} & d", "nowhere", "", "not run", ""),
)

SHARES = (0.0, 0.3, 1.0)  # of cells with a run


@functools.cache
def config() -> EvaluateConfig:
    """That of some evaluation."""
    return parse(EvaluateConfig, ["strategy=simpleshot"])[0]


paper = functools.cache(paper_table)


@functools.cache
def filled(name: str, share: float, seeds: int = 1) -> Table:
    """A paper's table whose cells have a run with that probability; with findings."""
    table = paper(name)
    draw = stream(0, "made up", name)
    cells = {}
    for (row, column), cell in table.cells.items():
        around = cell.published.value if cell.published else 50.0
        width = abs(around) / 100 + 0.01
        first, second = draw.random(2)
        if first < share:
            found = (around + width * draw.standard_normal(seeds)) / column.scale
            results = tuple(
                SeedResult(
                    seed=i,
                    value=float(value),
                    half_width=width / column.scale,
                    tasks=10_000,
                    run_id=draw.bytes(16).hex(),
                    as_printed=float(value) + 0.01 if cell.scored else math.nan,
                )
                for i, value in enumerate(found)
            )
            cell = dataclasses.replace(cell, config=cell.config or config(), results=results, best=bool(second < 0.1))
        cells[row, column] = cell
    return judged(dataclasses.replace(table, cells=cells, findings=FINDINGS))


def hostile(rows, columns, name="thesis/4.1"):
    """A paper's table of rows and columns of these names."""
    value = Value(61.2, "61.20 ± 1.80", 1.8, "own")
    cell = Cell(config(), results=(SeedResult(0, 0.6, 0.01, 100, "a" * 32),), published=value, verdict=Verdict("below"))
    rows = tuple(Row(text, group=text, kind=text, note=text) for text in dict.fromkeys(rows))
    columns = tuple(Column(text, group=text) for text in dict.fromkeys(columns))
    cells = {(r, c): cell for r in rows for c in columns}
    return Table(name, rows[0].name, rows, columns, cells, notes=(rows[0].name,), findings=FINDINGS)
