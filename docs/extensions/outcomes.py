"""Results of the papers' tables: the pages of `transduce report` about them, from the shipped results alone.

They are written into docs/outcomes before the build, and only those whose text has changed: a page for each work,
the claims and the errata. The page of the folder includes the overview and the table of contents.
"""

import re
import shutil
import tempfile
import textwrap
from collections.abc import Iterator
from pathlib import Path

from sphinx.application import Sphinx

FOLDER = "outcomes"
PAGE = """\
:orphan:

{title}
{line}

.. raw:: html

   <div class="results">
{body}
   </div>
"""


def pages(results: Path) -> Iterator[tuple[str, str]]:
    """(path in the folder, text) of every file.

    Args:
        results: an empty folder, whose record has no runs.
    """
    from runs.cache import Store
    from runs.report.figures import read_figures
    from runs.report.outcomes import Outcomes
    from runs.report.papers import Reader
    from runs.tables.shipped import drawings, shipped_results
    from runs.track import Tracker

    tracker = Tracker(Store(results))
    reader = Reader((), tracker, shipped_results())
    figures = read_figures((), tracker, drawings())
    outcomes = Outcomes(reader.papers(), figures, reader.experiments({}))
    yield "overview.html", outcomes.overview("index.html")
    places = [*(paper.path for paper in outcomes.papers), "claims", "errata"]
    places += [outcomes.place(table) for table in outcomes.experiments]
    listed = "\n".join(place.removesuffix(".html") for place in places)
    yield "contents.txt", f"```{{toctree}}\n:hidden:\n\n{listed}\n```\n"
    yield from outcomes.drawings.items()
    for path, title, body in outcomes.pages():
        text = PAGE.format(title=title.replace("@", "\\@"), line="=" * 100, body=textwrap.indent(body, "   "))
        yield path.replace(".html", ".rst"), _linked(path, text)


def _linked(path: str, text: str) -> str:
    """The text of the page at `path`, with links to the pages of the documentation that it names, as causes do."""
    up = "../" * (path.count("/") + 1)
    return re.sub(r"\bdocs/(methods/[\w-]+)\.md\b", rf'<a href="{up}\1.html">docs/\1.md</a>', text)


def write(folder: Path) -> None:
    """Write the pages that have changed, and remove those that are gone."""
    with tempfile.TemporaryDirectory() as empty:
        wanted = dict(pages(Path(empty)))
    for path in [path for path in folder.rglob("*") if path.suffix in (".rst", ".svg")]:
        if path.relative_to(folder).as_posix() not in wanted:
            path.unlink()
    for name, text in wanted.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def _copy(app: Sphinx, error: Exception | None) -> None:
    """Copy the drawings, which the pages name in HTML that Sphinx does not read."""
    drawings = Path(app.srcdir) / FOLDER / "figures"
    if error is None and app.builder.format == "html" and drawings.is_dir():
        shutil.copytree(drawings, Path(app.outdir) / FOLDER / "figures", dirs_exist_ok=True)


def setup(app: Sphinx) -> dict[str, bool]:
    """Write the pages before Sphinx looks for sources."""
    app.connect("builder-inited", lambda app: write(Path(app.srcdir) / FOLDER))
    app.connect("build-finished", _copy)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
