"""Tables of the papers filled with made-up runs: what renders a table needs no record."""

import dataclasses
import functools
import math

import numpy as np

from clustering.foundation.streams import stream
from fsl.evaluation.scores import ClassScores, Evaluation
from runs.config.configs import EvaluateConfig, parse
from runs.tables.judging import judged
from runs.tables.paper import paper_table
from runs.tables.table import Cell, Finding, SeedResult, Table

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
    table, draw = paper(name), stream(0, "made up", name)
    cells = []
    for cell in table.cells:
        around = 50.0 if cell.published is None else cell.published
        width = abs(around) / 100 + 0.01
        first, second = draw.random(2)
        if first < share:
            found = (around + width * draw.standard_normal(seeds)) / cell.scale
            results = tuple(
                SeedResult(
                    seed=i,
                    value=float(value),
                    half_width=width / cell.scale,
                    tasks=10_000,
                    run_id=draw.bytes(16).hex(),
                    as_printed=float(value) + 0.01 if cell.scored else math.nan,
                )
                for i, value in enumerate(found)
            )
            cell = dataclasses.replace(cell, config=cell.config or config(), results=results, best=bool(second < 0.1))
        cells.append(cell)
    return judged(dataclasses.replace(table, cells=tuple(cells), findings=FINDINGS))


def hostile(rows, columns, name="thesis/4.1"):
    """A paper's table of rows and columns of these names."""
    cells = tuple(
        Cell(
            **dict.fromkeys(("row", "row_group", "row_kind", "row_note"), row),
            **dict.fromkeys(("column", "column_group"), column),
            printed="61.20 ± 1.80",
            published=61.2,
            published_half_width=1.8,
            kind="own",
            config=config(),
            results=(SeedResult(0, 0.6, 0.01, 100, "a" * 32),),
            verdict="below",
        )
        for row in dict.fromkeys(rows)
        for column in dict.fromkeys(columns)
    )
    return Table(name, rows[0], cells, notes=(rows[0],), findings=FINDINGS)


def evaluated(accuracies, iterations=None, trace=None):
    """An evaluation with these accuracies of its tasks."""
    one = np.ones(1, dtype=np.int64)
    steps = np.ones(len(accuracies), dtype=np.int64) if iterations is None else iterations
    return Evaluation(np.asarray(accuracies), steps, ClassScores(one, one), ("a",), trace=trace)
