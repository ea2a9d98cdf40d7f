"""Cells of the papers' tables by verdict: what was printed, run and reproduced, and what the other cells need."""

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from runs.tables.evidence import look_up
from runs.tables.keys import cell_key
from runs.tables.paper import paper_table
from runs.tables.published import published_names, works
from runs.tables.table import CLAIM_STATUSES, STATUSES, Table

if TYPE_CHECKING:
    from runs.track import Tracker

WAITING = ("not run", "cannot run here")


def counts_of(name: str, tables: Iterable[Table]) -> dict[str, Any]:
    """Numbers of cells and claims of one table, or of several.

    Returns:
        By name: `printed` cells with a number in the paper; cells with `shipped` runs and with runs of your `own`; the
        cells of each verdict, also where the paper prints a dash; the `claims` of each status; and the `reasons` of the
        cells that were not run or cannot be run.
    """
    tables = list(tables)
    cells = [cell for table in tables for cell in table.cells]
    statuses = Counter(cell.verdict for cell in cells)
    claims = Counter(finding.status for table in tables for finding in table.findings)
    reasons = Counter((cell.verdict, cell.why) for cell in cells if cell.verdict in WAITING)
    return {
        "name": name,
        "printed": sum(bool(cell.printed) for cell in cells),
        "shipped": sum(bool(cell.shipped) for cell in cells),
        "own": sum(bool(cell.results) for cell in cells),
        **{status: statuses[status] for status in STATUSES},
        "claims": {status: claims[status] for status in CLAIM_STATUSES},
        "reasons": [{"verdict": status, "reason": why, "cells": count} for (status, why), count in reasons.items()],
    }


def in_words(tables: Iterable[Table]) -> str:
    """The numbers of printed, runnable, run and reproduced cells as a sentence without a full stop."""
    printed = [cell for table in tables for cell in table.cells if cell.printed]
    runnable = [cell for cell in printed if cell.config]
    found = [cell for cell in runnable if cell.results or cell.shipped]
    run = f"{len(found)} run, {sum(cell.verdict == 'reproduced' for cell in found)} reproduced"
    return f"{len(printed)} cells printed, {len(runnable)} can be run here, {run}"


def kinds_of_cells(tables: Iterable[Table]) -> dict[str, int]:
    """Return the number of cells with results, by what they are: results of methods, times, descriptions of data, and
    reprints, whose config, metric and printed number an earlier table has."""
    found, known = Counter[str](), set()
    for cell in (cell for table in tables for cell in table.cells if cell.results or cell.shipped):
        if cell.printed and cell.config:
            same = cell_key(cell.config), cell.metric, cell.published
            kind = "times" if cell.unit == "s" else "results of methods" if cell.better else "descriptions of data"
            found["reprints" if same in known else kind] += 1
            known.add(same)
    return dict(found)


def all_counts(tracker: "Tracker") -> tuple[list[dict[str, Any]], list[dict[str, Any]], dict[str, int]]:
    """Return the counts of each work and of all, those of each table, and `kinds_of_cells` of all tables."""
    tables = [look_up(paper_table(name), tracker) for name in published_names()]
    by_work = [counts_of(work, [table for table in tables if table.name.startswith(f"{work}/")]) for work in works()]
    of_tables = [counts_of(table.name, [table]) for table in tables]
    return [*by_work, counts_of("all", tables)], of_tables, kinds_of_cells(tables)
