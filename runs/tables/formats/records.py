"""A table as records, one for each cell, for CSV and JSON. Numbers are in the unit that the record names."""

import csv
import dataclasses
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from runs.config.configs import identity
from runs.tables.claims.claim import Finding
from runs.tables.formats import wording
from runs.tables.papers.paper import keys_of
from runs.tables.table import Cell, Column, Row, Table


@dataclass(frozen=True)
class Record:
    """A cell: its place, the printed number, the result of runs here, and the verdict; None or "" where missing.

    Attributes:
        kind: origin of the printed number; in an experiment, what the strategy declares.
        corrected: number compared with in place of `published`.
        reproduced, half_width: mean over seeds, and half its 95 % interval.
        scored, scored_as_printed: metric by which the paper scored, where it is not `metric`, and the result by it.
        tasks: number of tasks over all seeds.
        near, near_run: result and id of a run of another protocol, which does not fill the cell.
        config: identity of the config; equal for cells that the same runs fill.
    """

    table: str
    row_group: str
    row: str
    column_group: str
    column: str
    metric: str
    unit: str
    kind: str
    published: float | None
    published_half_width: float | None
    corrected: float | None
    corrected_half_width: float | None
    errata: tuple[str, ...]
    reproduced: float | None
    half_width: float | None
    scored: str
    scored_as_printed: float | None
    difference: float | None
    verdict: str
    why: str
    best: bool
    tasks: int
    seeds: int
    runs: tuple[str, ...]
    near: float | None
    near_run: str
    strategy: str
    sampler: str
    shot: int | None
    config: str


FIELDS = tuple(field.name for field in dataclasses.fields(Record))


def records(table: Table) -> list[Record]:
    """One record for each cell, in the order of the table."""
    return [_record(table, row, column, cell) for (row, column), cell in table.cells.items()]


def _record(table: Table, row: Row, column: Column, cell: Cell) -> Record:
    verdict, near = cell.verdict, cell.near
    tasks, clustering = cell.few_shot, cell.clustering or cell.fair
    printed = cell.published if wording.compares(table) else None
    return Record(
        table=table.name,
        row_group=row.group,
        row=row.name,
        column_group=column.group,
        column=column.name,
        metric=column.metric,
        unit=column.unit,
        kind=printed.kind if printed else row.kind,
        published=printed.value if printed else None,
        published_half_width=printed.half_width if printed else None,
        corrected=printed.corrected if printed else None,
        corrected_half_width=printed.corrected_half_width if printed else None,
        errata=printed.errata if printed else (),
        reproduced=_finite(column.scale * cell.value),
        half_width=_finite(column.scale * cell.half_width),
        scored=cell.scored,
        scored_as_printed=_finite(column.scale * cell.as_printed),
        difference=_finite(verdict.difference) if verdict and printed else None,
        verdict=verdict.status if verdict else "",
        why=verdict.why if verdict else "",
        best=cell.best,
        tasks=cell.tasks,
        seeds=len(cell.results),
        runs=tuple(result.run_id for result in cell.results),
        near=_finite(column.scale * near.value) if near else None,
        near_run=near.run_id if near else "",
        strategy=tasks.strategy.name if tasks else clustering.method.name if clustering else "",
        sampler=tasks.sampler.name if tasks else "",
        shot=tasks.sampler.options.get("shot") if tasks else None,
        config=identity("cell", keys=keys_of(cell.config)) if cell.config else "",
    )


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def as_json(table: Table, findings: Sequence[Finding] = ()) -> dict[str, Any]:
    """What `--json` prints."""
    return {
        "table": table.name,
        "title": table.title,
        "cells": [dataclasses.asdict(record) for record in records(table)],
        "errata": {erratum.id: erratum.text for erratum in table.errata},
        "claims": [wording.claim(finding) for finding in findings],
    }


def as_csv(table: Table) -> str:
    """One line for each cell; lists, such as runs, are separated by spaces."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(FIELDS)
    for record in records(table):
        values = dataclasses.astuple(record)
        writer.writerow([" ".join(value) if isinstance(value, tuple) else value for value in values])
    return text.getvalue()
