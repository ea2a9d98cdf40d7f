"""Cells of the papers' tables by kind and verdict: what was printed, run and reproduced, and what the others need."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from runs.tables.evidence import look_up
from runs.tables.keys import cell_key
from runs.tables.paper import paper_table
from runs.tables.published import published_names, works
from runs.tables.table import CLAIM_STATUSES, STATUSES, Cell, Table

if TYPE_CHECKING:
    from runs.track import Tracker

WAITING = ("not run", "cannot run here")
OTHERS = ("reprints", "quoted", "times", "descriptions")
"""Kinds of printed numbers that are no results of the paper: what an earlier table prints, what it takes from
elsewhere, and times and descriptions of data."""

Kinds = Mapping[tuple[str, ...], str]


def kinds_of(tables: Iterable[Table]) -> Kinds:
    """The kind of each printed cell, by the name of its table and its place: "results", or one of `OTHERS`. Of cells
    with the same config, metric and number, those after the first are reprints."""
    kinds, known = dict[tuple[str, ...], str](), set()
    for table in tables:
        for cell in (cell for cell in table.cells if cell.printed):
            same = cell_key(cell.config) if cell.config else cell.place, cell.metric, cell.published
            other = "quoted" if cell.kind == "quoted" else "reprints" if same in known else "results"
            kinds[table.name, *cell.place] = (
                "times" if cell.unit == "s" else "descriptions" if cell.better is None else other
            )
            known.add(same)
    return kinds


def counts_of(name: str, tables: Iterable[Table], kinds: Kinds) -> dict[str, Any]:
    """Numbers of printed cells and of claims, of one table or of several.

    Args:
        name: what they are called.
        tables: the tables.
        kinds: result of `kinds_of`, for these and all earlier tables.

    Returns:
        By name: distinct `results` of methods; of these, those with `shipped` runs and with runs of your `own`, and
        those of each verdict; printed cells of each other kind; the `claims` of each status; and the `reasons` of the
        results that were not run or cannot be run.
    """
    tables = list(tables)
    cells = _by_kind(tables, kinds)
    results = cells["results"]
    statuses = Counter(cell.verdict for cell in results)
    claims = Counter(finding.status for table in tables for finding in table.findings)
    reasons = Counter((cell.verdict, cell.why) for cell in results if cell.verdict in WAITING)
    return {
        "name": name,
        "results": len(results),
        "shipped": sum(bool(cell.shipped) for cell in results),
        "own": sum(bool(cell.results) for cell in results),
        **{status: statuses[status] for status in STATUSES if status != "not printed"},
        **{kind: len(cells[kind]) for kind in OTHERS},
        "claims": {status: claims[status] for status in CLAIM_STATUSES},
        "reasons": [{"verdict": status, "reason": why, "cells": count} for (status, why), count in reasons.items()],
    }


def in_words(tables: Iterable[Table], kinds: Kinds) -> str:
    """The numbers of printed, run and reproduced cells as a sentence without a full stop."""
    cells = _by_kind(tables, kinds)
    results = [cell for cell in cells["results"] if cell.results or cell.shipped]
    reproduced = sum(cell.verdict == "reproduced" for cell in results)
    others = ", ".join(f"{len(cells[kind])} {kind}" for kind in OTHERS if cells[kind])
    besides = others and f"; besides {others}"
    return (
        f"{len(cells['results'])} results of methods printed, {len(results)} run here, {reproduced} reproduced{besides}"
    )


def all_counts(tracker: "Tracker") -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the counts of each work and of all, and those of each table."""
    tables = [look_up(paper_table(name), tracker) for name in published_names()]
    kinds = kinds_of(tables)
    of_work = {work: [table for table in tables if table.name.startswith(f"{work}/")] for work in works()}
    by_work = [counts_of(work, printed, kinds) for work, printed in of_work.items()]
    return [*by_work, counts_of("all", tables, kinds)], [counts_of(table.name, [table], kinds) for table in tables]


def _by_kind(tables: Iterable[Table], kinds: Kinds) -> Mapping[str, Sequence[Cell]]:
    printed = [(kinds[table.name, *cell.place], cell) for table in tables for cell in table.cells if cell.printed]
    return {kind: [cell for its, cell in printed if its == kind] for kind in ("results", *OTHERS)}
