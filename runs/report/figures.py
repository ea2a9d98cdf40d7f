"""The papers' figures from the record of the user, or else those that the project ships."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from html import unescape

from runs.figures.logged import file_stem
from runs.figures.papers import listed
from runs.record.query import RunRow
from runs.report.rendering import slug
from runs.track import Tracker

SHIPPED = "drawn (shipped)"


@dataclass(frozen=True)
class Figure:
    """A figure of a paper, drawn or not."""

    name: str  # such as "thesis/4.1@glyphs"
    svg: str = ""  # the drawing; empty if there is none
    about: str = ""  # short description of the content
    state: str = ""  # "drawn", "drawn (shipped)", or how it can be drawn or why it cannot

    @property
    def path(self) -> str:
        """The path of the drawing in the site."""
        return f"figures/{slug(self.name)}.svg"

    @property
    def caption(self) -> str:
        """The caption, which the drawing has in its metadata."""
        return unescape(self.svg.partition("<dc:description>")[2].partition("</dc:description>")[0])


def read_figures(rows: Iterable[RunRow], tracker: Tracker, shipped: Mapping[str, str]) -> dict[str, list[Figure]]:
    """The figures of each work, in the order of print, each with its newest drawing if there is one.

    Args:
        rows: finished runs of any stage, newest first.
        tracker: their record.
        shipped: the shipped drawings by name, which are used where `rows` have none.
    """
    drawn = {name: Figure(name, svg, state=SHIPPED) for name, svg in shipped.items()}
    newest = {row.name: row for row in reversed([row for row in rows if row.tags.get("stage") == "figure"])}
    for name, row in newest.items():
        svg = _svg(row, tracker)
        drawn[name] = Figure(name, svg, state="drawn" if svg else f"the drawing of run {row.run_id} is gone or damaged")
    found: dict[str, list[Figure]] = {}
    for known in listed():
        name, state = known["name"], known["can be drawn"]
        none = Figure(name, state=f"not drawn yet: transduce figure {name}" if state == "yes" else state)
        for one in [drawn[one] for one in sorted(drawn) if one.partition("@")[0] == name] or [none]:
            found.setdefault(name.partition("/")[0], []).append(replace(one, about=known["about"]))
    return found


def _svg(row: RunRow, tracker: Tracker) -> str:
    try:
        return tracker.read(
            row.run_id, f"{file_stem(row.name)}.svg", lambda path: path.read_text("utf-8"), row.artifact_uri
        )
    except ValueError:
        return ""
