"""A table as text, one file a format: the terminal, Markdown, LaTeX, HTML, and CSV or JSON for other programs.

`lines` has what all of them show.
"""

from collections.abc import Callable, Mapping

from runs.tables.formats import html, latex, markdown, records
from runs.tables.table import Table

FILES: Mapping[str, Callable[[Table], str]] = {
    "md": markdown.markdown,
    "tex": latex.latex,
    "html": html.page,
    "csv": records.as_csv,
}
"""What a table is saved as: the ending of the file, and what writes its text."""
