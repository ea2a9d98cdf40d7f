"""The pages about the papers: tables and figures of each work, and of all works the claims, the figures and the errata.

Both the report and the documentation have these pages.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, get_args

from markupsafe import Markup

from runs.config import groups
from runs.report.addresses import Names, link_from, numbered
from runs.report.figures import Figure, split
from runs.report.papers import Paper
from runs.report.provenance import Provenance
from runs.report.rendering import Renderer
from runs.tables.counts import WAITING, Counts
from runs.tables.formats import html
from runs.tables.papers.printed import Place
from runs.tables.papers.published import causes, errata
from runs.tables.table import Table
from runs.tables.verdicts import STATUSES, ClaimStatus, Finding, VerdictStatus

BYTES_A_PAGE = 200_000  # maximum size of the tables on a page that holds several
CLAIMS, FIGURES, ERRATA = ("Claims", "claims.html"), ("Figures", "figures.html"), ("Errata", "errata.html")


@dataclass(frozen=True)
class Exhibit:
    """A table or figure on a paper's page.

    Attributes:
        name: name of the table or figure, such as "thesis/4.4@omniglot".
        anchor: the anchor of its heading.
        title: its kind and number, such as "Table 4.4".
        body: HTML.
        statuses: number of cells for each verdict; empty for a figure.
    """

    name: str
    anchor: str
    title: str
    body: Markup
    statuses: Mapping[VerdictStatus, int]

    @property
    def heading(self) -> str:
        """The heading of its section: the title, with the data and the network if they are not the paper's."""
        on = self.name.partition("@")[2]
        return self.title + (f" on {on}" if on else "")


@dataclass(frozen=True)
class Outcomes:
    """What came out of the papers' tables and figures.

    Attributes:
        papers: every work with its tables, filled.
        figures: the figures of each work.
        experiments: the tables of experiments, filled.
        renderer: renders the pages; its site links runs.
    """

    papers: Sequence[Paper]
    figures: Mapping[str, Sequence[Figure]]
    experiments: Sequence[Table]
    renderer: Renderer

    def pages(self) -> Iterator[tuple[str, str]]:
        """(path, text) of every page and drawing."""
        yield from ((one.path, one.svg) for found in self.figures.values() for one in found if one.svg)
        for paper in self.papers:
            yield from self._paper(paper, self._cut[paper.work])
        for table in self.experiments:
            path = self.places[table.name]
            body = table_body(table, path, self.renderer)
            about = groups.comment("experiment", table.name.partition("@")[0])
            yield path, self.renderer.page("experiment.html", path, table.name, table=body, about=about)
        tables = [table for paper in self.papers for table in paper.tables]
        others = (*self._elsewhere, *self.experiments)
        of_papers, of_others = Counts.of("papers", tables).claims, Counts.of("others", others).claims
        yield self._page(
            "claims.html",
            "What the papers claim",
            CLAIMS[1],
            sections=[
                ("In the papers' tables", of_papers, _judged(tables, run=True)),
                ("On other data or with another network", of_others, _judged(others, run=True)),
                ("Not run", {}, _judged((*tables, *others), run=False)),
            ],
        )
        yield self._page("figure_list.html", "Figures", FIGURES[1], works=self.papers, figures=self.figures)
        verdicts = [cell.verdict for table in tables for cell in table.cells.values()]
        off = [verdict for verdict in verdicts if verdict and verdict.status in ("above", "below")]
        looked_for = [verdict.cause for verdict in off if verdict.cause]
        counted = {
            "off": len(off),
            "looked_for": len(looked_for),
            "found": sum(not cause.cause.startswith("unknown") for cause in looked_for),
        }
        texts: dict[str, Any] = {"errata": errata(), "causes": causes(), **counted}
        yield self._page("errata.html", "Errata, and causes of differences", ERRATA[1], where=where, **texts)

    def _page(self, template: str, title: str, path: str, **content: Any) -> tuple[str, str]:
        return path, self.renderer.page(template, path, title, places=self.places, **content)

    def overview(self, path: str) -> Markup:
        """The counts of cells and claims by work, as a part of the page at `path`."""
        counts = [Counts.of(paper.work, paper.tables) for paper in self.papers]
        total = Counts.of("all", (table for paper in self.papers for table in paper.tables))
        by_reason = sorted(total.reasons.items(), key=lambda item: (WAITING.index(item[0][0]), -item[1]))
        reasons = [
            (status, why, count, [(of.name, of.reasons[status, why]) for of in counts if (status, why) in of.reasons])
            for (status, why), count in by_reason
        ]
        return self.renderer.part(
            "overview.html",
            path,
            papers=[(paper, of) for paper, of in zip(self.papers, counts, strict=True) if of.printed],
            total=total,
            verdicts=STATUSES,
            claims=get_args(ClaimStatus),
            reasons=reasons,
            pages=(CLAIMS, FIGURES, ERRATA),
            elsewhere=self.elsewhere,
            experiments=self._experiments(),
        )

    def _experiments(self) -> list[tuple[str, str, list[tuple[str, str]]]]:
        """Name and description of each experiment, and (data and network or "", place) of its tables."""
        found: dict[str, tuple[str, str, list[tuple[str, str]]]] = {}
        for table in self.experiments:
            name, _, data = table.name.partition("@")
            about = groups.comment("experiment", name) or f"{table.title}."
            found.setdefault(name, (name, about, []))[2].append((data, self.places[table.name]))
        return list(found.values())

    @cached_property
    def places(self) -> dict[str, str]:
        """The place of each table and figure in the site, by name; of a figure as "figure-thesis/4.1"."""
        cut = [page for pages in self._cut.values() for page in pages]
        names = Names()
        experiments = {table.name: f"experiments/{names[table.name]}.html" for table in self.experiments}
        return {one.name: f"{path}#{one.anchor}" for path, exhibits in cut for one in exhibits} | experiments

    @property
    def elsewhere(self) -> dict[str, list[tuple[str, str]]]:
        """Name and place of the papers' tables on other data or with another network, by these data and network."""
        names = [table.name for table in self._elsewhere]
        return _by_data((name, name.partition("@")[0], self.places[name]) for name in names)

    @property
    def _elsewhere(self) -> list[Table]:
        return [table for paper in self.papers for of_one in paper.elsewhere.values() for table in of_one]

    @cached_property
    def _cut(self) -> dict[str, list[tuple[str, list[Exhibit]]]]:
        """The pages of each work, with their tables and figures."""
        of_work = {paper.work: self._exhibits(paper) for paper in self.papers}
        return {paper.work: list(_pages(of_work[paper.work], paper.path)) for paper in self.papers}

    def _exhibits(self, paper: Paper) -> Iterator[Exhibit]:
        anchors = Names()  # two networks may have similar names
        for printed in paper.tables:
            for table in (printed, *paper.elsewhere[printed.name]):
                body = table_body(table, paper.path, self.renderer)
                yield Exhibit(table.name, anchors[table.name], _title("Table", table.name), body, table.statuses)
        drawn, others = split(self.figures.get(paper.work, []))
        for figure in drawn:
            body = self.renderer.part("figure.html", paper.path, figure=figure)
            name = f"figure-{figure.name}"
            yield Exhibit(name, anchors[name], _title("Figure", figure.name), body, {})
        if others:
            body = self.renderer.part("figures.html", paper.path, figures=others)
            name = "other-figures"
            yield Exhibit(name, anchors[name], "Figures that are not drawn", body, {})

    def _paper(self, paper: Paper, cut: Sequence[tuple[str, list[Exhibit]]]) -> Iterator[tuple[str, str]]:
        contents = _by_data((one.name, one.title, f"{path}#{one.anchor}") for path, exhibits in cut for one in exhibits)
        for path, exhibits in cut:
            yield (
                path,
                self.renderer.page(
                    "paper.html",
                    path,
                    paper.title,
                    counts=Counts.of(paper.work, paper.tables),
                    pages=[path for path, _ in cut],
                    contents=contents,
                    exhibits=exhibits,
                ),
            )


def table_body(table: Table, path: str, renderer: Renderer) -> Markup:
    """A complete table: caption, cells with links to their runs, footnotes, claims."""
    to = link_from(path)

    def href(run_id: str) -> str | None:
        place = renderer.site.run(run_id)
        return to(place) if place else None

    return Markup(html.table(table, href))


def run_pages(provenance: Provenance, renderer: Renderer) -> Iterator[tuple[str, str]]:
    """The pages of the entries of runs, of those that were requested so far."""
    for leaf in provenance.leaves():
        title = f"Runs of {leaf.experiment}" + (f", page {leaf.number}" if leaf.number > 1 else "")
        pages = provenance.pages(leaf.experiment)
        yield leaf.path, renderer.page("provenance.html", leaf.path, title, leaf=leaf, pages=pages)


def where(place: Place) -> str:
    """The cells of a place in words, without the table."""
    headings = (place.row_groups, place.rows, place.column_groups, place.columns, place.metrics)
    return "; ".join(", ".join(names) for names in headings if names)


def _title(kind: str, name: str) -> str:
    return f"{kind} {name.partition('/')[2].partition('@')[0]}"


def _by_data(named: Iterable[tuple[str, str, str]]) -> dict[str, list[tuple[str, str]]]:
    """(title, place) of each (name, title, place), by the data and network in the name; those of the paper have ""."""
    found: dict[str, list[tuple[str, str]]] = {}
    for name, title, place in named:
        found.setdefault(name.partition("@")[2], []).append((title, place))
    return found


def _judged(tables: Iterable[Table], *, run: bool) -> list[tuple[Table, Finding]]:
    """The findings of tables: those that their runs decide or, without `run`, the others."""
    return [(table, one) for table in tables for one in table.findings if (one.status != "not run") == run]


def _pages(exhibits: Iterable[Exhibit], first: str) -> Iterator[tuple[str, list[Exhibit]]]:
    """Divide exhibits into pages of limited size, so that each page loads quickly on a phone."""
    page: list[Exhibit] = []
    number, size = 1, 0
    for exhibit in exhibits:
        if page and size + len(exhibit.body) > BYTES_A_PAGE:
            yield numbered(first, number), page
            page, size, number = [], 0, number + 1
        page.append(exhibit)
        size += len(exhibit.body)
    yield numbered(first, number), page
