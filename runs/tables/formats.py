"""A table as text: for the terminal, Markdown, CSV. Fractions become percent, but for CSV and JSON."""

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any

from runs.tables.claims import Finding
from runs.tables.table import Cell, Column, Table

NOT_RUN = "not run"


def spell(cell: Cell, column: Column) -> str:
    """Mean and interval in the column's unit, and the number of seeds where there is more than one."""
    if not cell.results:
        return NOT_RUN
    seeds = f" (n={len(cell.results)})" if len(cell.results) > 1 else ""
    return f"{column.scale * cell.value:.2f} ± {column.scale * cell.half_width:.2f}{seeds}"


def rows(table: Table) -> list[dict[str, str]]:
    """One dictionary a row, for the console."""
    return [
        {
            "strategy": str(row),
            "kind": row.kind,
            **{
                str(column): spell(table.cells[row, column], column)
                for column in table.columns
                if (row, column) in table.cells
            },
        }
        for row in table.rows
    ]


def markdown(table: Table, verdicts: Sequence[Finding] = ()) -> str:
    """A Markdown table with its title and notes, and a second one of the claims."""
    lines = [f"{table.title}.", "", *markdown_table(rows(table), right=[str(column) for column in table.columns])]
    lines += ["", *(f"- {note}" for note in table.notes)] if table.notes else []
    lines += ["", "What the papers claim:", "", *markdown_table(claims(verdicts))] if verdicts else []
    return "\n".join(lines) + "\n"


def claims(findings: Sequence[Finding]) -> list[dict[str, str]]:
    """One dictionary a verdict, for the console."""
    return [
        {"claim": v.claim, "source": v.source, "in": v.setting, "verdict": v.status, "evidence": v.evidence}
        for v in findings
    ]


def markdown_table(found: Sequence[Mapping[str, str]], right: Sequence[str] = ()) -> list[str]:
    """The lines of a Markdown table; its columns are the keys of the rows, those in `right` set flush right."""
    names = list(dict.fromkeys(name for row in found for name in row))
    lines = ["| " + " | ".join(names) + " |"]
    lines.append("| " + " | ".join("---:" if name in right else "---" for name in names) + " |")
    return lines + ["| " + " | ".join(row.get(name, "") for name in names) + " |" for row in found]


FIELDS = (
    "table",
    "strategy",
    "kind",
    "column",
    "sampler",
    "shot",
    "seeds",
    "tasks",
    "accuracy",
    "accuracy_ci95",
    "runs",
)


def records(table: Table) -> list[dict[str, Any]]:
    """One record a cell, fractions; accuracy and interval are None where the cell was not run."""
    return [
        {
            "table": table.name,
            "strategy": str(row),
            "kind": row.kind,
            "column": str(column),
            "sampler": cell.config.sampler.name if cell.config else None,
            "shot": cell.config.sampler.options.get("shot") if cell.config else None,
            "seeds": len(cell.results),
            "tasks": cell.tasks,
            "accuracy": cell.value if cell.results else None,
            "accuracy_ci95": cell.half_width if cell.results else None,
            "runs": [result.run_id for result in cell.results],
        }
        for (row, column), cell in table.cells.items()
    ]


def as_csv(table: Table) -> str:
    """One line a cell; numbers are fractions, run ids are separated by blanks."""
    text = io.StringIO()
    writer = csv.DictWriter(text, FIELDS, lineterminator="\n")
    writer.writeheader()
    for record in records(table):
        writer.writerow({**record, "runs": " ".join(record["runs"])})
    return text.getvalue()
