"""The pages about the papers: tables and figures of each work, and of all works the claims, the figures and the errata.

Both the report and the documentation have these pages.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import get_args

from markupsafe import Markup

from runs.config import groups
from runs.report.figures import Figure
from runs.report.papers import Paper
from runs.report.rendering import Renderer, link, link_from, sections, slug, verdict
from runs.report.sections import Item, Section, table_of
from runs.tables import formats
from runs.tables.counts import WAITING, Counts
from runs.tables.papers.published import Place, causes, errata
from runs.tables.table import STATUSES, ClaimStatus, Finding, Table

CLAIMS, FIGURES, ERRATA = ("Claims", "claims.html"), ("Figures", "figures.html"), ("Errata", "errata.html")


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
        yield from map(self._paper, self.papers)
        for table in self.experiments:
            path, about = self.place(table), groups.comment("experiment", table.name.partition("@")[0])
            yield self.renderer.page(path, table.name, introduction=[about], body=self._body(table, path))
        yield self._claims()
        yield self._figures()
        yield self._errata()

    def place(self, table: Table) -> str:
        """The place of a table in the site."""
        if any(table.name == one.name for one in self.experiments):
            return f"experiments/{slug(table.name)}.html"
        return f"papers/{slug(table.name.partition('/')[0])}.html#{slug(table.name)}"

    def overview(self, path: str) -> Markup:
        """The counts of cells and claims by work, as a part of the page at `path`."""
        return sections([*self._counts(path), *self._others(path)])

    def _counts(self, path: str) -> Iterator[Section]:
        counts = [(paper, Counts.of(paper.work, paper.tables)) for paper in self.papers]
        total = Counts.of("all", self._printed())
        named = [(link(path, paper.path, paper.work), of) for paper, of in counts if of.printed]
        whole: list[tuple[str | Markup, Counts]] = [*named, ("all", total)]
        rows = [
            [
                name,
                *(f"{n or ''}" for n in (of.printed, of.shipped, of.own)),
                *(verdict(s, str(of.statuses.get(s, ""))) for s in STATUSES),
            ]
            for name, of in whole
        ]
        caption = (
            "Printed: the paper has a number. Shipped: the cell has shipped results; own: in this record. A "
            "cell counts as run only if every key that can change its result agrees with the paper's protocol."
        )
        by_reason = sorted(total.reasons.items(), key=lambda item: (WAITING.index(item[0][0]), -item[1]))
        reasons = [
            (
                status,
                why or "needs only time",
                str(count),
                ", ".join(f"{of.name} {of.reasons[status, why]}" for _, of in counts if (status, why) in of.reasons),
            )
            for (status, why), count in by_reason
        ]
        missing = table_of(["verdict", "*reason", "cells", "*of them"], reasons, folded="What the other cells need")
        lines = [Markup("{}: {}.").format(link(path, paper.path, paper.title), of.in_words) for paper, of in counts]
        table = table_of(["work", "printed", "shipped", "own", *STATUSES], rows, caption)
        yield Section("Coverage by paper", items=[*map(Item, lines)], tables=[table, missing], anchor="coverage")
        claims = [[name, *(verdict(s, str(of.claims.get(s, ""))) for s in get_args(ClaimStatus))] for name, of in whole]
        all_claims = Markup("{}, {}, and {}.").format(
            link(path, CLAIMS[1], "All claims with their evidence"),
            link(path, FIGURES[1], "figures"),
            link(path, ERRATA[1], "causes of differences and errata"),
        )
        yield Section("Claims of the papers", [all_claims], tables=[table_of(["work", *get_args(ClaimStatus)], claims)])

    def _others(self, path: str) -> Iterator[Section]:
        """Links to the tables on other data and with other networks, and to those of experiments."""
        for heading, tables in (
            ("The same tables on other data or with another network", self._elsewhere()),
            ("Experiments of this project", self.experiments),
        ):
            items = [Item(link(path, self.place(table), table.name)) for table in tables]
            none = ["None has a run yet. `transduce quickstart` makes the first ones in a few minutes."]
            yield Section(heading, [] if items else none, items)

    def _printed(self) -> list[Table]:
        return [table for paper in self.papers for table in paper.tables]

    def _elsewhere(self) -> list[Table]:
        return [table for paper in self.papers for of_one in paper.elsewhere.values() for table in of_one]

    def _paper(self, paper: Paper) -> tuple[str, str]:
        """The page of a work: its tables, each followed by those on other data, and its figures."""
        path, counts = paper.path, Counts.of(paper.work, paper.tables)
        found = []
        for table in (one for printed in paper.tables for one in (printed, *paper.elsewhere[printed.name])):
            name, _, on = table.name.partition("/")[2].partition("@")
            shown = [Markup(" ").join(verdict(status, f"{n} {status}") for status, n in table.statuses.items())]
            heading, body = f"Table {name}{' on ' * bool(on)}{on}", self._body(table, path)
            found.append(Section(heading, shown if shown[0] else [], body=body, anchor=slug(table.name)))
        figures = self.figures.get(paper.work, [])
        for figure in figures:
            if figure.svg or figure.run_id:
                found.append(self._figure(figure, path))
        missing = [Item(f"{one.name}: {one.about}. {one.missing}") for one in figures if not (one.svg or one.run_id)]
        if missing:
            found.append(Section("Figures that are not drawn", items=missing))
        contents = Markup(", ").join(link(path, f"{path}#{one.anchor}", one.heading) for one in found if one.anchor)
        return self.renderer.page(path, paper.title, found, [f"{counts.in_words}.", contents])

    def _figure(self, figure: Figure, path: str) -> Section:
        name, _, on = figure.name.partition("/")[2].partition("@")
        whence = self.renderer.run_link(path, figure.run_id, "Which runs it was drawn from") if figure.run_id else ""
        shipped = " Shipped with the project." if figure.shipped else ""
        about = Markup("{}{} {}").format(figure.caption, shipped, whence)
        picture = link_from(path)(figure.path) if figure.svg else ""
        anchor = slug(f"figure-{figure.name}")
        lost = [] if picture else [figure.missing]
        return Section(f"Figure {name}{' on ' * bool(on)}{on}", lost, picture=picture, about=about, anchor=anchor)

    def _body(self, table: Table, path: str) -> Markup:
        """A complete table: caption, cells with links to their runs, footnotes, claims."""
        to = link_from(path)

        def href(run_id: str) -> str | None:
            place = self.renderer.site.run(run_id)
            return to(place) if place else None

        return Markup(formats.html(table, href))

    def _claims(self) -> tuple[str, str]:
        path, elsewhere = CLAIMS[1], [*self._elsewhere(), *self.experiments]
        parts = []
        for title, tables, run in (
            ("In the papers' tables", self._printed(), True),
            ("On other data or with another network", elsewhere, True),
            ("Not run", [*self._printed(), *elsewhere], False),
        ):
            judged = [(table, one) for table in tables for one in table.findings if (one.status != "not run") == run]
            rows = [self._claim(path, table, finding) for table, finding in judged]
            headings = ["claim", "*verdict", "*evidence", "*in", "*judged on", "*source"]
            if rows:
                parts.append(Section(f"{title}: {len(rows)} claims", tables=[table_of(headings, rows)]))
        about = (
            "Orderings and statements of the papers, checked on the runs that the tables show. A claim is judged on "
            "each table that has its methods. Not run: the table has the methods, but not their runs."
        )
        return self.renderer.page(path, "What the papers claim", parts, [about])

    def _claim(self, path: str, table: Table, finding: Finding) -> list[str | Markup]:
        on = link(path, self.place(table), table.name)
        return [finding.claim, verdict(finding.status), finding.evidence, finding.setting, on, finding.source]

    def _figures(self) -> tuple[str, str]:
        path, parts = FIGURES[1], []
        for paper in self.papers:
            rows = []
            for figure in self.figures.get(paper.work, ()):
                state = f"drawn{' (shipped)' * figure.shipped}" if figure.svg else figure.state
                place = f"{paper.path}#{slug(f'figure-{figure.name}')}"
                rows.append((link(path, place, figure.name) if figure.svg else figure.name, figure.about, state))
            if rows:
                parts.append(Section(paper.title, tables=[table_of(["figure", "*shows", "*state"], rows)]))
        about = "transduce figure NAME --run-missing draws one of those that can be drawn here."
        return self.renderer.page(path, "Figures", parts, [about])

    def _errata(self) -> tuple[str, str]:
        path = ERRATA[1]
        verdicts = [cell.verdict for table in self._printed() for cell in table.cells.values() if cell.verdict]
        off = [one for one in verdicts if one.status in ("above", "below")]
        sought = [one.cause for one in off if one.cause]
        found = sum(not cause.cause.startswith("unknown") for cause in sought)
        why = [(one.id, one.cause, one.evidence, self._where(path, one.where)) for one in causes().values()]
        known = [
            (one.id, one.severity + ("" if one.target else ", no target"), one.text, self._where(path, one.where))
            for one in errata().values()
        ]
        of_print = (
            "Known errors of the print, and caveats. Severity is the importance for comparisons; a number marked as no "
            "target is not compared with a run."
        )
        about = (
            f"{len(off)} cells are above or below the print. The cause was looked for in {len(sought)} of them, by "
            f'changing one thing at a time, and found in {found}. In the others it is "unknown".'
        )
        parts = [
            Section("Causes of differences", [about], tables=[table_of(["id", "*cause", "*shown by", "*cells"], why)]),
            Section(
                "Errata of the print",
                [of_print],
                tables=[table_of(["id", "*severity", "*what is known", "*cells or figures"], known)],
            ),
        ]
        return self.renderer.page(path, "Errata, and causes of differences", parts)

    def _where(self, path: str, places: Iterable[Place]) -> Markup:
        """The cells or figures of places, with links to their tables."""
        known = {table.name: table for table in self._printed()}
        found = []
        for place in places:
            headings = (place.row_groups, place.rows, place.column_groups, place.columns, place.metrics)
            cells = "; ".join(", ".join(names) for names in headings if names)
            linked = link(path, self.place(known[place.table]), place.table) if place.table in known else place.table
            found.append(Markup("{}{}{}").format(linked, ", ".join(place.figures), f": {cells}" if cells else ""))
        return Markup("; ").join(found)
