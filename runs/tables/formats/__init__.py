"""A table as text, one file a format: the terminal, Markdown, LaTeX, HTML, and CSV or JSON for other programs."""

from collections.abc import Callable, Mapping, Sequence

from runs.tables.claims.claim import Finding
from runs.tables.formats import html, latex, markdown, records
from runs.tables.table import Table

FILES: Mapping[str, Callable[[Table, Sequence[Finding]], str]] = {
    "md": markdown.markdown,
    "tex": latex.latex,
    "html": html.page,
    "csv": lambda table, findings: records.as_csv(table),
}
"""What a table is saved as: the ending of the file, and what writes its text."""
