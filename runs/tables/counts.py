"""Cells of the papers' tables by verdict: what was printed, run and reproduced, and what the other cells need."""

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from runs.tables.evidence import look_up
from runs.tables.keys import cell_key
from runs.tables.papers.paper import paper_table
from runs.tables.papers.published import published_names, works
from runs.tables.table import CLAIM_STATUSES, STATUSES, Table, VerdictStatus

if TYPE_CHECKING:
    from runs.track import Tracker

WAITING: tuple[VerdictStatus, ...] = ("not run", "cannot run here")


def counts_of(name: str, tables: Iterable[Table]) -> dict[str, Any]:
    """Numbers of cells and claims of one table, or of several.

    Returns:
        By name: `printed` cells with a number in the paper; cells with `shipped` runs and with runs of your `own`; the
        cells of each verdict, also where the paper prints a dash; the `claims` of each status; and the `reasons` of the
        cells that were not run or cannot be run.
    """
    tables = list(tables)
    cells = [cell for table in tables for cell in table.cells.values()]
    verdicts = [cell.verdict for cell in cells if cell.verdict]
    statuses = Counter(verdict.status for verdict in verdicts)
    claims = Counter(finding.status for table in tables for finding in table.findings)
    reasons = Counter((one.status, one.why) for one in verdicts if one.status in WAITING)
    return {
        "name": name,
        "printed": sum(cell.published is not None for cell in cells),
        "shipped": sum(bool(cell.shipped) for cell in cells),
        "own": sum(bool(cell.results) for cell in cells),
        **{status: statuses[status] for status in STATUSES},
        "claims": {status: claims[status] for status in CLAIM_STATUSES},
        "reasons": [{"verdict": status, "reason": why, "cells": count} for (status, why), count in reasons.items()],
    }


def in_words(tables: Iterable[Table]) -> str:
    """The numbers of printed, runnable, run and reproduced cells as a sentence without a full stop."""
    printed = [cell for table in tables for cell in table.cells.values() if cell.published]
    runnable = [cell for cell in printed if cell.config]
    found = [cell for cell in runnable if cell.results or cell.shipped]
    reproduced = sum(cell.verdict is not None and cell.verdict.status == "reproduced" for cell in found)
    run = f"{len(found)} run, {reproduced} reproduced"
    return f"{len(printed)} cells printed, {len(runnable)} can be run here, {run}"


def kinds_of_cells(tables: Iterable[Table]) -> dict[str, int]:
    """Return the number of cells with results, by what they are: results of methods, times, descriptions of data, and
    reprints, whose config, metric and printed number an earlier table has."""
    found, known = Counter[str](), set()
    for table in tables:
        for (_, column), cell in table.cells.items():
            if not (cell.results or cell.shipped) or cell.config is None or cell.published is None:
                continue
            same = cell_key(cell.config), column.metric, cell.published.value
            kind = "times" if column.unit == "s" else "results of methods" if column.better else "descriptions of data"
            found["reprints" if same in known else kind] += 1
            known.add(same)
    return dict(found)


def all_counts(tracker: "Tracker") -> tuple[list[dict[str, Any]], list[dict[str, Any]], dict[str, int]]:
    """Return the counts of each work and of all, those of each table, and `kinds_of_cells` of all tables."""
    tables = [look_up(paper_table(name), tracker) for name in published_names()]
    by_work = [counts_of(work, [table for table in tables if table.name.startswith(f"{work}/")]) for work in works()]
    of_tables = [counts_of(table.name, [table]) for table in tables]
    return [*by_work, counts_of("all", tables)], of_tables, kinds_of_cells(tables)
