"""The papers' figures from the record of the user, or else those that the project ships."""

import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from html import unescape
from pathlib import Path

from runs.config.base import RunConfig
from runs.figures.logged import file_stem
from runs.figures.papers import drawing, drawn, listed
from runs.figures.style import save
from runs.record.query import NOTE, RunRow
from runs.report.rendering import slug
from runs.storage.locks import silent
from runs.track import Tracker


@dataclass(frozen=True)
class Figure:
    """A figure of a paper, drawn or missing.

    Attributes:
        name: such as "thesis/4.1@glyphs".
        about: short description of the content.
        svg: the drawing; empty if there is none.
        caption: the caption below the drawing.
        run_id: id of the run that holds the figure; empty if there is none.
        missing: the reason why there is no drawing.
        state: "can be drawn", or why it cannot.
        shipped: whether the drawing is one that the project ships.
    """

    name: str
    about: str
    svg: str = ""
    caption: str = ""
    run_id: str = ""
    missing: str = ""
    state: str = ""
    shipped: bool = False

    @property
    def path(self) -> str:
        """The path of the drawing in the site."""
        return f"figures/{slug(self.name)}.svg"


def read_figures(
    rows: Iterable[RunRow], tracker: Tracker, shipped: Mapping[str, str] | None = None
) -> dict[str, list[Figure]]:
    """The figures of each work, in the order of print, each with its newest drawing if there is one.

    Args:
        rows: runs of any stage and status, newest first.
        tracker: their record.
        shipped: the shipped drawings by name, which are used where `rows` have none.
    """
    drawn: dict[str, Figure] = {}
    for row in rows:
        if row.tags.get("stage") == "figure" and row.status == "FINISHED" and row.name not in drawn:
            drawn[row.name] = _drawn(row, tracker)
    for name, svg in (shipped or {}).items():
        caption = unescape(svg.partition("<dc:description>")[2].partition("</dc:description>")[0])
        drawn.setdefault(name, Figure(name, "", svg, caption, shipped=True))
    found: dict[str, list[Figure]] = {}
    for known in listed():
        name, about, able = known["name"], known["about"], known["can be drawn"] == "yes"
        missing = f"Not drawn yet: transduce figure {name}." if able else f"It {known['can be drawn']}."
        figures = [drawn[one] for one in sorted(drawn) if one.partition("@")[0] == name]
        for one in figures or [Figure(name, about, missing=missing)]:
            state = "can be drawn" if able else known["can be drawn"]
            found.setdefault(name.partition("/")[0], []).append(replace(one, about=about, state=state))
    return found


def _drawn(row: RunRow, tracker: Tracker) -> Figure:
    file = f"{file_stem(row.name)}.svg"
    with tempfile.TemporaryDirectory() as folder:
        path = tracker.download(row.run_id, file, Path(folder), row.artifact_uri)
        try:
            svg = path.read_text(encoding="utf-8") if path else ""
        except (OSError, UnicodeDecodeError):
            svg = ""
    missing = "" if svg else f"{file} of run {row.run_id} is gone or damaged"
    return Figure(row.name, "", svg, row.tags.get(NOTE, ""), row.run_id, missing)


def formulas(figures: Mapping[str, Sequence[Figure]], tracker: Tracker) -> dict[str, list[Figure]]:
    """The figures with drawings of those that show formulas alone, and therefore need no run."""
    return {work: [_of_formulas(figure, tracker) for figure in of_work] for work, of_work in figures.items()}


def _of_formulas(figure: Figure, tracker: Tracker) -> Figure:
    if figure.name not in drawn() or (known := drawing(figure.name)).schema is not RunConfig:
        return figure
    results = [known.read(config, tracker, silent) for config in known.configs(figure.name, "", (), silent)]
    with tempfile.TemporaryDirectory() as folder:
        path = save(known.draw(results), Path(folder) / "figure.svg", title=figure.name, about=figure.about)
        return replace(figure, svg=path.read_text(encoding="utf-8"), caption=known.caption(results))
