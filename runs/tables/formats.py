"""A table as text: for the terminal, Markdown, CSV. Fractions become percent, but for CSV and JSON."""

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any

from runs.tables.claims import Verdict
from runs.tables.grid import Cell, Table

NOT_RUN = "not run"


def spell(cell: Cell) -> str:
    """Mean and interval in percent, and the number of seeds where there is more than one."""
    if not cell.results:
        return NOT_RUN
    seeds = f" (n={len(cell.results)})" if len(cell.results) > 1 else ""
    return f"{100 * cell.accuracy:.2f} ± {100 * cell.ci95:.2f}{seeds}"


def rows(table: Table) -> list[dict[str, str]]:
    """One dictionary a row, for the console."""
    return [
        {
            "strategy": row,
            "kind": table.kinds[row],
            **{column: spell(table.cells[row, column]) for column in table.columns},
        }
        for row in table.rows
    ]


def markdown(table: Table, verdicts: Sequence[Verdict] = ()) -> str:
    """A Markdown table with its title and notes, and a second one of the claims."""
    lines = [f"{table.title}.", "", *markdown_table(rows(table), right=table.columns)]
    lines += ["", *(f"- {note}" for note in table.notes)] if table.notes else []
    lines += ["", "What the papers claim:", "", *markdown_table(claims(verdicts))] if verdicts else []
    return "\n".join(lines) + "\n"


def claims(verdicts: Sequence[Verdict]) -> list[dict[str, str]]:
    """One dictionary a verdict, for the console."""
    return [
        {"claim": v.claim, "source": v.source, "in": v.setting, "verdict": v.status, "evidence": v.evidence}
        for v in verdicts
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
            "strategy": row,
            "kind": table.kinds[row],
            "column": column,
            "sampler": cell.config.sampler.name,
            "shot": cell.config.sampler.options.get("shot"),
            "seeds": len(cell.results),
            "tasks": cell.tasks,
            "accuracy": cell.accuracy if cell.results else None,
            "accuracy_ci95": cell.ci95 if cell.results else None,
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
