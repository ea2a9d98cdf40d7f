"""The pages about the papers: tables and figures of each work, and of all works the claims, the figures and the errata.

Both the report and the documentation have these pages.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, get_args

from markupsafe import Markup

from runs.config import groups
from runs.report.figures import Figure
from runs.report.papers import Paper
from runs.report.rendering import Renderer, link, relative, rendered, slug, verdict
from runs.report.sections import Item, Section, table_of
from runs.tables import formats
from runs.tables.counts import WAITING, Counts
from runs.tables.papers.published import Place, causes, errata
from runs.tables.table import STATUSES, ClaimStatus, Table

CLAIMS, FIGURES, ERRATA = ("Claims", "claims.html"), ("Figures", "figures.html"), ("Errata", "errata.html")


@dataclass(frozen=True)
class Outcomes:
    """What came out of the papers' tables and figures.

    Attributes:
        papers: every work with its tables, filled.
        figures: the figures of each work.
        experiments: the tables of experiments, filled.
        renderer: renders the pages.
    """

    papers: Sequence[Paper]
    figures: Mapping[str, Sequence[Figure]]
    experiments: Sequence[Table]
    renderer: Renderer

    @property
    def printed(self) -> list[Table]:
        """The printed tables of all works."""
        return [table for paper in self.papers for table in paper.tables]

    @property
    def elsewhere(self) -> list[Table]:
        """The same tables on other data or with other networks."""
        return [table for paper in self.papers for of_one in paper.elsewhere.values() for table in of_one]

    def pages(self) -> Iterator[tuple[str, str]]:
        """(path, text) of every page and drawing."""
        yield from ((one.path, one.svg) for found in self.figures.values() for one in found if one.svg)
        yield from map(self._paper, self.papers)
        for table in self.experiments:
            path, about = self.place(table), groups.comment("experiment", table.name.partition("@")[0])
            yield self.renderer.page(path, table.name, introduction=[about], body=self._body(table, path))
        yield self._claims(CLAIMS[1])
        yield self._figures(FIGURES[1])
        yield self._errata(ERRATA[1])

    def place(self, table: Table) -> str:
        """The place of a table in the site."""
        if any(table.name == one.name for one in self.experiments):
            return f"experiments/{slug(table.name)}.html"
        return f"papers/{slug(table.name.partition('/')[0])}.html#{slug(table.name)}"

    def overview(self, path: str) -> Markup:
        """The counts of cells and claims by work, and links to all other tables, as a part of the page at `path`."""
        counts = [(paper, Counts.of(paper.work, paper.tables)) for paper in self.papers]
        total = Counts.of("all", self.printed)
        whole: list[tuple[str | Markup, Counts]] = [(link(path, paper.path, paper.work), of) for paper, of in counts]
        whole = [*((name, of) for name, of in whole if of.printed), ("all", total)]

        def coloured(of: Mapping[Any, int], names: Sequence[str]) -> list[Markup]:
            return [verdict(name, str(of.get(name, ""))) for name in names]

        caption = (
            "Printed: the paper has a number. Shipped: the cell has shipped results; own: in this record. A "
            "cell counts as run only if every key that can change its result agrees with the paper's protocol."
        )
        rows = [
            [name, *(f"{n or ''}" for n in (of.printed, of.shipped, of.own)), *coloured(of.statuses, STATUSES)]
            for name, of in whole
        ]
        reasons = [
            [status, why or "needs only time", str(count), ", ".join(
                f"{of.name} {of.reasons[status, why]}" for _, of in counts if (status, why) in of.reasons
            )]
            for (status, why), count in sorted(
                total.reasons.items(), key=lambda one: (WAITING.index(one[0][0]), -one[1])
            )
        ]  # fmt: skip
        coverage = [
            table_of(["work", "printed", "shipped", "own", *STATUSES], rows, caption),
            table_of(["verdict", "*reason", "cells", "*of them"], reasons, folded="What the other cells need"),
        ]
        lines = [
            Item(Markup("{}: {}.").format(link(path, paper.path, paper.title), of.in_words)) for paper, of in counts
        ]
        statuses = get_args(ClaimStatus)
        claims = table_of(["work", *statuses], [[name, *coloured(of.claims, statuses)] for name, of in whole])
        more = Markup("{}, {}, and {}.").format(
            link(path, CLAIMS[1], "All claims with their evidence"),
            link(path, FIGURES[1], "figures"),
            link(path, ERRATA[1], "causes of differences and errata"),
        )
        others = {
            "The same tables on other data or with another network": self.elsewhere,
            "Experiments of this project": self.experiments,
        }
        none = ["None has a run yet. `transduce quickstart` makes the first ones in a few minutes."]
        return rendered([
            Section("Coverage by paper", items=lines, tables=coverage, anchor="coverage"),
            Section("Claims of the papers", [more], tables=[claims]),
            *(
                Section(heading, [] if found else none, [Item(link(path, self.place(one), one.name)) for one in found])
                for heading, found in others.items()
            ),
        ])  # fmt: skip

    def _paper(self, paper: Paper) -> tuple[str, str]:
        """The page of a work: its tables, each followed by those on other data, and its figures."""
        path, found = paper.path, []
        for table in (one for printed in paper.tables for one in (printed, *paper.elsewhere[printed.name])):
            shown = Markup(" ").join(verdict(status, f"{n} {status}") for status, n in table.statuses.items())
            heading, body = f"Table {_number(table.name)}", self._body(table, path)
            found.append(Section(heading, [shown] if shown else [], body=body, anchor=slug(table.name)))
        figures = self.figures.get(paper.work, [])
        for figure in (one for one in figures if one.svg):
            run = self.renderer.run(figure.run_id) if figure.run_id else None
            whence = link(path, run, "The run that holds it") if run else "Shipped with the project."
            about, anchor = Markup("{} {}").format(figure.caption, whence), slug(f"figure-{figure.name}")
            picture, heading = relative(path, figure.path), f"Figure {_number(figure.name)}"
            found.append(Section(heading, picture=picture, about=about, anchor=anchor))
        missing = [Item(f"{one.name}: {one.about}; {one.state}.") for one in figures if not one.svg]
        contents = Markup(", ").join(link(path, f"{path}#{one.anchor}", one.heading) for one in found)
        if missing:
            found.append(Section("Figures that are not drawn", items=missing))
        counts = Counts.of(paper.work, paper.tables)
        return self.renderer.page(path, paper.title, found, [f"{counts.in_words}.", contents])

    def _body(self, table: Table, path: str) -> Markup:
        """A complete table: caption, cells with links to their runs, footnotes, claims."""

        def href(run_id: str) -> str | None:
            place = self.renderer.run(run_id)
            return relative(path, place) if place else None

        return Markup(formats.html(table, href))

    def _claims(self, path: str) -> tuple[str, str]:
        parts, elsewhere = [], [*self.elsewhere, *self.experiments]
        for title, tables, run in (
            ("In the papers' tables", self.printed, True),
            ("On other data or with another network", elsewhere, True),
            ("Not run", [*self.printed, *elsewhere], False),
        ):
            rows = [
                [one.claim, verdict(one.status), one.evidence, one.setting, link(path, self.place(table), table.name),
                 one.source]
                for table in tables for one in table.findings if (one.status != "not run") == run
            ]  # fmt: skip
            headings = ["claim", "*verdict", "*evidence", "*in", "*judged on", "*source"]
            if rows:
                parts.append(Section(f"{title}: {len(rows)} claims", tables=[table_of(headings, rows)]))
        about = (
            "Orderings and statements of the papers, checked on the runs that the tables show. A claim is judged on "
            "each table that has its methods. Not run: the table has the methods, but not their runs."
        )
        return self.renderer.page(path, "What the papers claim", parts, [about])

    def _figures(self, path: str) -> tuple[str, str]:
        parts = []
        for paper in self.papers:
            rows = []
            for one in self.figures.get(paper.work, ()):
                place = f"{paper.path}#{slug(f'figure-{one.name}')}"
                rows.append((link(path, place, one.name) if one.svg else one.name, one.about, one.state))
            parts += [Section(paper.title, tables=[table_of(["figure", "*shows", "*state"], rows)])] if rows else []
        about = "transduce figure NAME --run-missing draws one of those that can be drawn here."
        return self.renderer.page(path, "Figures", parts, [about])

    def _errata(self, path: str) -> tuple[str, str]:
        verdicts = [cell.verdict for table in self.printed for cell in table.cells.values() if cell.verdict]
        off = [one for one in verdicts if one.status in ("above", "below")]
        sought = [one.cause for one in off if one.cause]
        found = sum(not cause.cause.startswith("unknown") for cause in sought)
        where = partial(self._where, path)
        why = [(one.id, one.cause, one.evidence, where(one.where)) for one in causes().values()]
        known = [
            (one.id, one.severity + ("" if one.target else ", no target"), one.text, where(one.where))
            for one in errata().values()
        ]
        of_causes = (
            f"{len(off)} cells are above or below the print. The cause was looked for in {len(sought)} of them, by "
            f'changing one thing at a time, and found in {found}. In the others it is "unknown".'
        )
        of_print = (
            "Known errors of the print, and caveats. Severity is the importance for comparisons; a number marked as no "
            "target is not compared with a run."
        )
        parts = [
            (["id", "*cause", "*shown by", "*cells"], why, "Causes of differences", of_causes),
            (["id", "*severity", "*what is known", "*cells or figures"], known, "Errata of the print", of_print),
        ]
        sections = [Section(title, [about], tables=[table_of(names, rows)]) for names, rows, title, about in parts]
        return self.renderer.page(path, "Errata, and causes of differences", sections)

    def _where(self, path: str, places: Sequence[Place]) -> Markup:
        """The cells or figures of places, with links to their tables."""
        known = {table.name: table for table in self.printed}
        found = []
        for place in places:
            headings = (place.row_groups, place.rows, place.column_groups, place.columns, place.metrics)
            cells = "; ".join(", ".join(names) for names in headings if names)
            linked = link(path, self.place(known[place.table]), place.table) if place.table in known else place.table
            found.append(Markup("{}{}{}").format(linked, ", ".join(place.figures), f": {cells}" if cells else ""))
        return Markup("; ").join(found)


def _number(name: str) -> str:
    """The number of a table or figure, and the data: "4.4 on mini"."""
    return name.partition("/")[2].replace("@", " on ", 1)
