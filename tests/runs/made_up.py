"""Tables of the papers filled with made-up runs: what renders a table needs no record."""

import dataclasses
import functools
import math

from clustering.streams import stream
from runs.config import EvaluateConfig, parse
from runs.tables.claims import Finding
from runs.tables.paper import judged, paper_table
from runs.tables.table import Near, SeedResult, Table

FINDINGS = (
    Finding("LaplacianShot is better than SimpleShot", "thesis Tables 4.1, 4.2", "1-shot", "holds", "+3.97"),
    Finding("100 % of a_b < {c} & d", "nowhere", "", "not run", ""),
)


@functools.cache
def config() -> EvaluateConfig:
    """That of some evaluation."""
    return parse(EvaluateConfig, ["strategy=simpleshot"])[0]


@functools.cache
def filled(name: str, share: float, seeds: int = 1) -> Table:
    """A paper's table whose cells have a run with that probability, else in half of the cases one that is near."""
    table = paper_table(name)
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
        elif share and second < 0.5:
            near = Near(("tasks=1000, not 10000",), around / column.scale, draw.bytes(16).hex())
            cell = dataclasses.replace(cell, near=near)
        cells[row, column] = cell
    return judged(dataclasses.replace(table, cells=cells))
