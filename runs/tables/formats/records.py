"""A table as records, one for each cell, for CSV and JSON. Numbers are in the unit that the record names."""

import math
from dataclasses import replace
from typing import Any

from runs.tables.formats import wording
from runs.tables.keys import cell_key
from runs.tables.table import Cell, Column, Row, Table


def records(table: Table) -> list[dict[str, Any]]:
    """One record for each cell, in the order of the table; None or "" where something is missing."""
    return [_record(table, row, column, cell) for (row, column), cell in table.cells.items()]


def _record(table: Table, row: Row, column: Column, cell: Cell) -> dict[str, Any]:
    verdict = cell.verdict
    tasks, clustering = cell.few_shot, cell.clustering or cell.fair
    printed = cell.published if wording.compares(table) else None
    return {
        "table": table.name,
        "row_group": row.group,
        "row": row.name,
        "column_group": column.group,
        "column": column.name,
        "metric": column.metric,
        "unit": column.unit,
        # Origin of the printed number; in an experiment, what the strategy declares.
        "kind": printed.kind if printed else row.kind,
        "published": printed.value if printed else None,
        "published_half_width": printed.half_width if printed else None,
        # The number that is compared with in place of the published one.
        "corrected": printed.corrected if printed else None,
        "corrected_half_width": printed.corrected_half_width if printed else None,
        "errata": printed.errata if printed else (),
        # Mean over seeds, and half its 95 % interval.
        "reproduced": _finite(column.scale * cell.value),
        "half_width": _finite(column.scale * cell.half_width),
        # Mean over the seeds of the shipped runs.
        "shipped": _finite(column.scale * replace(cell, results=cell.shipped).value),
        "shipped_seeds": len(cell.shipped),
        # The metric by which the paper scored, if it is not that of the column, and the result by it.
        "scored": cell.scored,
        "scored_as_printed": _finite(column.scale * cell.as_printed),
        "difference": _finite(verdict.difference) if verdict and printed else None,
        "verdict": verdict.status if verdict else "",
        "why": verdict.why if verdict else "",
        "cause": verdict.cause.cause if verdict and verdict.cause else "",  # of above or below
        "best": cell.best,
        "tasks": cell.tasks,  # over all seeds
        "seeds": len(cell.results),
        "runs": tuple(result.run_id for result in cell.results),
        "strategy": tasks.strategy.name if tasks else clustering.method.name if clustering else "",
        "sampler": tasks.sampler.name if tasks else "",
        "shot": tasks.sampler.options.get("shot") if tasks else None,
        # Identity of the config; equal for cells that the same runs fill.
        "config": cell_key(cell.config) if cell.config else "",
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def as_json(table: Table) -> dict[str, Any]:
    """What `--json` prints."""
    return {
        "table": table.name,
        "title": table.title,
        "cells": records(table),
        "errata": {erratum.id: erratum.text for erratum in table.errata},
        "claims": [wording.claim(finding) for finding in table.findings],
    }


def as_csv(table: Table) -> str:
    """One line for each cell; lists, such as runs, are separated by spaces."""
    from pandas import DataFrame

    cells = [
        {name: " ".join(value) if isinstance(value, tuple) else value for name, value in record.items()}
        for record in records(table)
    ]
    return DataFrame(cells, dtype=object).to_csv(index=False, lineterminator="\n")
