"""The pages about the papers: tables and figures of each work, and of all works the claims and the errata.

Both the report and the documentation have these pages.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from markupsafe import Markup
from pandas import DataFrame

from runs.config import groups
from runs.report.figures import SHIPPED, Figure
from runs.report.papers import Paper
from runs.report.rendering import link, relative, rendered, slug, verdict
from runs.report.sections import Item, Section, table_of
from runs.tables import formats
from runs.tables.counts import OTHERS, Kinds, counts_of, in_words, kinds_of
from runs.tables.published import Place, causes, errata
from runs.tables.table import CLAIM_STATUSES, STATUSES, Table

Page = tuple[str, str, Markup]
"""Path, title and content."""
CLAIMS, ERRATA = ("Claims", "claims.html"), ("Errata", "errata.html")


@dataclass(frozen=True)
class Outcomes:
    """Results of the papers' tables and figures."""

    papers: Sequence[Paper]  # every work with its tables, filled
    figures: Mapping[str, Sequence[Figure]]  # of each work
    experiments: Sequence[Table]  # the tables of experiments, filled
    address: Callable[[str], str] | None = None  # that of a run, by its id; None: results do not link to their runs

    @property
    def printed(self) -> list[Table]:
        """The printed tables of all works."""
        return [table for paper in self.papers for table in paper.tables]

    @cached_property
    def kinds(self) -> Kinds:
        """The kind of each printed cell."""
        return kinds_of(self.printed)

    @property
    def elsewhere(self) -> list[Table]:
        """The same tables on other data or with other networks."""
        return [table for paper in self.papers for of_one in paper.elsewhere.values() for table in of_one]

    @property
    def drawings(self) -> dict[str, str]:
        """The drawings of figures by their paths."""
        return {one.path: one.svg for found in self.figures.values() for one in found if one.svg}

    def pages(self) -> Iterator[Page]:
        """Every page."""
        yield from map(self._paper, self.papers)
        for table in self.experiments:
            path, about = self.place(table), groups.comment("experiment", table.name.partition("@")[0])
            yield path, table.name, rendered([], [about]) + self._body(table)
        yield self._claims(CLAIMS[1])
        yield self._errata(ERRATA[1])

    def place(self, table: Table) -> str:
        """The place of a table in the site."""
        if any(table.name == one.name for one in self.experiments):
            return f"experiments/{slug(table.name)}.html"
        return f"papers/{slug(table.name.partition('/')[0])}.html#{slug(table.name)}"

    def overview(self, path: str) -> Markup:
        """The counts of cells and claims by work, and links to all other tables, as a part of the page at `path`."""
        counts = [counts_of(paper.work, paper.tables, self.kinds) for paper in self.papers]
        counts.append(counts_of("all", self.printed, self.kinds))
        pages = {paper.work: paper.path for paper in self.papers}
        names: dict[str, str] = {"all": "all"} | {work: link(path, page, work) for work, page in pages.items()}
        columns = ["results", "shipped", "own", *(status for status in STATUSES if status != "not printed")]

        def numbers(columns: Sequence[str]) -> DataFrame:
            shown = [name for name in columns if counts[-1][name]]
            return _frame(
                ["work", *shown], [[names[of["name"]], *(str(of[name] or "") for name in shown)] for of in counts]
            )

        claims = [[names[of["name"]], *(str(of["claims"][name] or "") for name in CLAIM_STATUSES)] for of in counts]
        reasons = sorted(counts[-1]["reasons"], key=lambda one: (STATUSES.index(one["verdict"]), -one["cells"]))
        others = [[one["verdict"], one["reason"] or "needs only time", str(one["cells"])] for one in reasons]
        caption = (
            "Results: printed results of methods; the verdicts are about these. Shipped: the cell has shipped results; "
            "own: in this record. A cell counts as run only if every key that can change its result agrees with the "
            "paper's protocol."
        )
        besides = (
            "Other printed numbers: reprints of an earlier table's results, numbers quoted from elsewhere, times, and "
            "descriptions of data."
        )
        coverage = [
            table_of(numbers(columns), caption),
            table_of(numbers(OTHERS), besides),
            table_of(
                _frame(["verdict", "reason", "cells"], others), text=["reason"], folded="What the other cells need"
            ),
        ]
        lines = [
            Item(Markup("{}: {}.").format(link(path, paper.path, paper.title), in_words(paper.tables, self.kinds)))
            for paper in self.papers
        ]
        more = Markup("{}, and {}.").format(
            link(path, CLAIMS[1], "All claims with their evidence"),
            link(path, ERRATA[1], "causes of differences and errata"),
        )
        tables = {
            "The same tables on other data or with another network": self.elsewhere,
            "Experiments of this project": self.experiments,
        }
        none = ["None has a run yet. `transduce quickstart` makes the first ones in a few minutes."]
        return rendered([
            Section("Coverage by paper", items=lines, tables=coverage, anchor="coverage"),
            Section("Claims of the papers", [more], tables=[table_of(_frame(["work", *CLAIM_STATUSES], claims))]),
            *(
                Section(heading, [] if found else none, [Item(link(path, self.place(one), one.name)) for one in found])
                for heading, found in tables.items()
            ),
        ])  # fmt: skip

    def _paper(self, paper: Paper) -> Page:
        """The page of a work: its tables, each followed by those on other data, and its figures."""
        path, found = paper.path, []
        for table in (one for printed in paper.tables for one in (printed, *paper.elsewhere[printed.name])):
            shown = Markup(" ").join(verdict(status, f"{n} {status}") for status, n in table.statuses.items())
            heading, body = f"Table {_number(table.name)}", self._body(table)
            found.append(Section(heading, [shown] if shown else [], body=body, anchor=slug(table.name)))
        figures = self.figures.get(paper.work, [])
        for figure in (one for one in figures if one.svg):
            anchor, picture = slug(f"figure-{figure.name}"), relative(path, figure.path)
            about = f"{figure.caption} Shipped with the project." if figure.state == SHIPPED else figure.caption
            heading = f"Figure {_number(figure.name)}"
            found.append(Section(heading, picture=picture, about=about, anchor=anchor))
        contents = Markup(", ").join(link(path, f"{path}#{one.anchor}", one.heading) for one in found)
        if missing := [Item(f"{one.name}: {one.about}; {one.state}.") for one in figures if not one.svg]:
            found.append(Section("Figures that are not drawn", items=missing))
        return path, paper.title, rendered(found, [f"{in_words(paper.tables, self.kinds)}.", contents])

    def _body(self, table: Table) -> Markup:
        """A complete table: caption, cells with links to their runs, footnotes, claims."""
        return Markup(formats.html(table, self.address))

    def _claims(self, path: str) -> Page:
        sections, elsewhere = [], [*self.elsewhere, *self.experiments]
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
            frame = _frame(["claim", "verdict", "evidence", "in", "judged on", "source"], rows)
            if rows:
                sections.append(Section(f"{title}: {len(rows)} claims", tables=[table_of(frame, text=frame.columns)]))
        about = (
            "Orderings and statements of the papers, checked on the runs that the tables show. A claim is judged on "
            "each table that has its methods. Not run: the table has the methods, but not their runs."
        )
        return path, "What the papers claim", rendered(sections, [about])

    def _errata(self, path: str) -> Page:
        off = [cell for table in self.printed for cell in table.cells if cell.verdict in ("above", "below")]
        sought = [one.cause for one in off if one.cause]
        found = sum(not cause.cause.startswith("unknown") for cause in sought)
        why = [(one.id, one.cause, one.evidence, self._where(path, one.where)) for one in causes().values()]
        known = [
            (one.id, one.severity + ("" if one.target else ", no target"), one.text, self._where(path, one.where))
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
        sections = []
        for heading, about, rows, columns in (
            ("Causes of differences", of_causes, why, ["id", "cause", "shown by", "cells"]),
            ("Errata of the print", of_print, known, ["id", "severity", "what is known", "cells or figures"]),
        ):
            table = table_of(_frame(columns, rows), text=columns)
            sections.append(Section(heading, [about], tables=[table]))
        return path, "Errata, and causes of differences", rendered(sections)

    def _where(self, path: str, places: Sequence[Place]) -> Markup:
        """The cells or figures of places, with links to their tables."""
        known = {table.name: table for table in self.printed}
        found = []
        for place in places:
            cells = "; ".join(", ".join(names) for names in place.names if names)
            linked = link(path, self.place(known[place.table]), place.table) if place.table in known else place.table
            found.append(Markup("{}{}{}").format(linked, ", ".join(place.figures), f": {cells}" if cells else ""))
        return Markup("; ").join(found)


def _number(name: str) -> str:
    """The number of a table or figure, and the data: "4.4 on mini"."""
    return name.partition("/")[2].replace("@", " on ", 1)


def _frame(columns: list[str], rows: Sequence[Sequence[str]]) -> DataFrame:
    return DataFrame(list(rows), columns=columns, dtype=object)  # strings of pandas would lose the markup
