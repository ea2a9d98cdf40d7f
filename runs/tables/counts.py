"""Cells of the papers' tables by verdict: what was printed, run and reproduced, and what the other cells need."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, get_args

from runs.tables.evidence import look_up
from runs.tables.keys import cell_key
from runs.tables.papers.paper import paper_table
from runs.tables.papers.published import published_names, works
from runs.tables.table import STATUSES, ClaimStatus, Table, VerdictStatus

if TYPE_CHECKING:
    from runs.track import Tracker

WAITING: tuple[VerdictStatus, ...] = ("not run", "cannot run here")


@dataclass(frozen=True)
class Counts:
    """Numbers of cells and claims of one table, or of several.

    Attributes:
        name: of the table or work; "all" for the sum.
        printed: cells with a number in the paper.
        runnable: of these, the cells for which this project has a config.
        found: of these, the cells with runs that count, of the user or shipped.
        reproduced: of these, the cells whose result agrees with the paper.
        shipped: cells with shipped runs, also where the paper prints a dash.
        own: cells with runs of the user, also where the paper prints a dash.
        statuses: number of cells for each verdict that occurs, also where the paper prints a dash.
        reasons: of the cells that were not run or cannot be run, by verdict and reason.
        claims: number of findings for each status that occurs.
    """

    name: str
    printed: int
    runnable: int
    found: int
    reproduced: int
    shipped: int
    own: int
    statuses: Mapping[VerdictStatus, int]
    reasons: Mapping[tuple[VerdictStatus, str], int]
    claims: Mapping[ClaimStatus, int]

    @classmethod
    def of(cls, name: str, tables: Iterable[Table]) -> "Counts":
        tables = list(tables)
        cells = [cell for table in tables for cell in table.cells.values()]
        runnable = [cell for cell in cells if cell.published and cell.config]
        found = [cell for cell in runnable if cell.results or cell.shipped]
        verdicts = [cell.verdict for cell in cells if cell.verdict]
        statuses = Counter(verdict.status for verdict in verdicts)
        claims = Counter(finding.status for table in tables for finding in table.findings)
        return cls(
            name,
            printed=sum(cell.published is not None for cell in cells),
            runnable=len(runnable),
            found=len(found),
            reproduced=sum(cell.verdict is not None and cell.verdict.status == "reproduced" for cell in found),
            shipped=sum(bool(cell.shipped) for cell in cells),
            own=sum(bool(cell.results) for cell in cells),
            statuses={status: statuses[status] for status in STATUSES if statuses[status]},
            reasons=Counter((one.status, one.why) for one in verdicts if one.status in WAITING),
            claims={status: claims[status] for status in get_args(ClaimStatus) if claims[status]},
        )

    @property
    def in_words(self) -> str:
        """The numbers of printed, runnable, run and reproduced cells as a sentence without a full stop."""
        run = f"{self.found} run, {self.reproduced} reproduced"
        return f"{self.printed} cells printed, {self.runnable} can be run here, {run}"

    def record(self) -> dict[str, Any]:
        """The counts by name, for JSON: every verdict and status of a claim, also those that do not occur."""
        return {
            "name": self.name,
            "printed": self.printed,
            "shipped": self.shipped,
            "own": self.own,
            **{status: self.statuses.get(status, 0) for status in STATUSES},
            "claims": {status: self.claims.get(status, 0) for status in get_args(ClaimStatus)},
            "reasons": [
                {"verdict": status, "reason": why, "cells": count} for (status, why), count in self.reasons.items()
            ],
        }


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
    by_work = {work: [table for table in tables if table.name.partition("/")[0] == work] for work in works()}
    counts = [*(Counts.of(work, of_work) for work, of_work in by_work.items()), Counts.of("all", tables)]
    of_tables = [Counts.of(table.name, [table]).record() for table in tables]
    return [one.record() for one in counts], of_tables, kinds_of_cells(tables)
