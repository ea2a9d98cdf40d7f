"""The whole site: read the record once, render every page, and move the folder into place.

results/report/
    index.html          coverage by paper, methods, the newest runs
    papers/<work>.html  tables with verdicts and claims, figures
    experiments/        tables of experiments
    methods/            explanation and results of each method
    runs/               an entry for every run that contributes a number to a page
    figures/, style.css, sort.js, icon.svg
"""

import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from markupsafe import Markup

from runs.config.configs import EvaluateConfig
from runs.record.code_version import code_version
from runs.record.query import RunRow, read_runs
from runs.record.tracking import Tracker
from runs.report.addresses import link_from, numbered, slug
from runs.report.convergence import convergence
from runs.report.figures import Figure, read_figures, split
from runs.report.methods import Method, methods
from runs.report.papers import Paper, Reader
from runs.report.provenance import Leaf, Provenance, newest
from runs.report.rendering import ASSETS, TEMPLATES, Renderer
from runs.storage.locks import Say, silent
from runs.storage.store import Store, put_in_place
from runs.tables.formats import html
from runs.tables.table import Table
from runs.tables.verdicts import VerdictStatus

ALL = ("FINISHED", "FAILED", "KILLED", "RUNNING", "SCHEDULED")
OUTCOMES_A_PAGE = 400
BYTES_A_PAGE = 200_000  # maximum size of the tables on a page that holds several
NEWEST = 12
OVERVIEW, METHODS, RUNS = ("Overview", "index.html"), ("Methods", "index.html#methods"), ("Runs", "runs/index.html")


@dataclass(frozen=True)
class Site:
    """Information about the whole site, available to every page: the variable `site` of the templates."""

    navigation: tuple[tuple[str, str], ...]
    made: str
    code: str
    record: str
    run: Callable[[str], str | None]


def build_report(
    store: Store,
    tracker: Tracker,
    *,
    experiments: Mapping[str, Sequence[EvaluateConfig]] | None = None,
    say: Say = silent,
) -> Path:
    """Build the site in `results/report/` from one pass over the record; returns the path of its first page.

    An existing site is replaced only when the new one is complete.

    Args:
        experiments: configs of experiments whose settings differ from their files.

    Raises:
        InputError: the record cannot be read, or the store cannot be written.
    """
    rows = read_runs(tracker, "", statuses=ALL)
    with store.lock("report", "site", "the report", say), store.watched():
        partial = store.root / "report.partial"
        _tidy(store.root)
        partial.mkdir(parents=True)
        for path, text in _pages(rows, tracker, experiments or {}):
            place = partial / path
            place.parent.mkdir(exist_ok=True)
            place.write_text(text, encoding="utf-8")
        for name in ASSETS:
            shutil.copyfile(TEMPLATES / name, partial / name)
        put_in_place(partial, store.root / "report")
    return store.root / "report" / "index.html"


def _tidy(root: Path) -> None:
    """Remove the files of a killed process. If it was killed between the two renames, restore the old site."""
    for old in root.glob("report.old-*"):
        if (old / "report").exists() and not (root / "report").exists():
            put_in_place(old / "report", root / "report")
        shutil.rmtree(old)
    if (root / "report.partial").exists():
        shutil.rmtree(root / "report.partial")


def _pages(
    rows: Sequence[RunRow], tracker: Tracker, asked: Mapping[str, Sequence[EvaluateConfig]]
) -> Iterator[tuple[str, str]]:
    """(path, text) of every page."""
    provenance = Provenance(rows, tracker.place if tracker.is_server else None)
    results = ("evaluate/", "cluster/", "fair/")
    evaluations = [row for row in rows if row.status == "FINISHED" and row.experiment.startswith(results)]
    reader = Reader(evaluations, tracker)
    papers, experiments, known = reader.papers(), reader.experiments(asked), methods(rows)
    site = Site(
        navigation=(OVERVIEW, *((paper.work, paper.path) for paper in papers), METHODS, RUNS),
        made=datetime.now(UTC).strftime("%Y-%m-%d %H:%M"),
        code=code_version()[:12],
        record=str(tracker.store.root) if tracker.own else tracker.place,
        run=provenance.href,
    )
    renderer = Renderer(site, {method.name: method.path for method in known})
    figures = read_figures(rows, tracker)
    yield from ((figure.path, figure.svg) for found in figures.values() for figure in found if figure.svg)
    scaled: list[tuple[str, str]] = []
    for paper in papers:
        cut = list(_cut(_exhibits(paper, figures.get(paper.work, []), renderer), paper.path))
        for path, exhibits in cut:
            others = [exhibit for exhibit in exhibits if exhibit.statuses and "@" in exhibit.name]
            scaled += [(exhibit.name, f"{path}#{exhibit.anchor}") for exhibit in others]
        yield from _paper(paper, cut, renderer)
    for table in experiments:
        path = _experiment_path(table)
        yield path, renderer.page("experiment.html", path, table.name, table=_body(table, path, renderer))
    for method in known:
        yield from _method(method, renderer, tracker)
    yield (
        "index.html",
        renderer.page(
            "index.html",
            "index.html",
            "The papers and the record of runs",
            papers=papers,
            scaled=scaled,
            experiments=[(table.name, table.title, _experiment_path(table)) for table in experiments],
            methods=known,
            newest=newest(rows, NEWEST),
            statuses=_in_words(rows),
        ),
    )
    yield from _provenance(provenance, rows, renderer)


@dataclass(frozen=True)
class Exhibit:
    """A table or figure on a paper's page.

    Attributes:
        name: name of the table or figure, such as "thesis/4.4@omniglot".
        body: HTML.
        statuses: number of cells for each verdict; empty for a figure.
    """

    name: str
    heading: str
    body: Markup
    statuses: Mapping[VerdictStatus, int]

    @property
    def anchor(self) -> str:
        """The anchor of its heading."""
        return slug(self.name)


def _exhibits(paper: Paper, figures: Sequence[Figure], renderer: Renderer) -> Iterator[Exhibit]:
    for printed in paper.tables:
        for table in (printed, *paper.elsewhere[printed.name]):
            number, _, benchmark = table.name.partition("/")[2].partition("@")
            heading = f"Table {number}" + (f" on {benchmark}" if benchmark else "")
            yield Exhibit(table.name, heading, _body(table, paper.path, renderer), table.statuses)
    able, others = split(figures)
    for figure in able:
        number, _, benchmark = figure.name.partition("/")[2].partition("@")
        heading = f"Figure {number}" + (f" on {benchmark}" if benchmark else "")
        yield Exhibit(f"figure-{figure.name}", heading, renderer.part("figure.html", paper.path, figure=figure), {})
    if others:
        body = renderer.part("figures.html", paper.path, figures=others)
        yield Exhibit("other-figures", "Figures that are not drawn here", body, {})


def _body(table: Table, path: str, renderer: Renderer) -> Markup:
    """A complete table: caption, cells with links to their runs, footnotes, claims."""
    to = link_from(path)

    def href(run_id: str) -> str | None:
        place = renderer.site.run(run_id)
        return to(place) if place else None

    return Markup(html.table(table, href))


def _cut(exhibits: Iterable[Exhibit], first: str) -> Iterator[tuple[str, list[Exhibit]]]:
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


def _paper(paper: Paper, cut: Sequence[tuple[str, list[Exhibit]]], renderer: Renderer) -> Iterator[tuple[str, str]]:
    contents = [(exhibit.heading, f"{path}#{exhibit.anchor}") for path, exhibits in cut for exhibit in exhibits]
    for path, exhibits in cut:
        yield (
            path,
            renderer.page(
                "paper.html",
                path,
                paper.title,
                coverage=paper.coverage,
                statuses=paper.statuses,
                pages=[path for path, _ in cut],
                contents=contents,
                exhibits=exhibits,
            ),
        )


def _experiment_path(table: Table) -> str:
    return f"experiments/{slug(table.name)}.html"


def _method(method: Method, renderer: Renderer, tracker: Tracker) -> Iterator[tuple[str, str]]:
    usual = sorted(method.outcomes, key=lambda outcome: bool(outcome.variant))  # default values first
    drawn, trouble = convergence([outcome.run for outcome in usual], tracker)
    count = max(1, -(-len(method.outcomes) // OUTCOMES_A_PAGE))
    pages = [numbered(method.path, i + 1) for i in range(count)]
    for i, path in enumerate(pages):
        yield (
            path,
            renderer.page(
                "method.html",
                path,
                method.name + (f", page {i + 1}" if i else ""),
                method=method,
                page=i + 1,
                pages=pages,
                outcomes=method.outcomes[i * OUTCOMES_A_PAGE : (i + 1) * OUTCOMES_A_PAGE],
                convergence=drawn,
                trouble=trouble,
            ),
        )


def _provenance(provenance: Provenance, rows: Sequence[RunRow], renderer: Renderer) -> Iterator[tuple[str, str]]:
    """The pages of the entries. Rendered last, because the other pages request the entries."""
    leaves: dict[str, list[Leaf]] = {}
    for leaf in provenance.leaves():
        leaves.setdefault(leaf.experiment, []).append(leaf)
    for experiment, of_experiment in leaves.items():
        pages = [leaf.path for leaf in of_experiment]
        for leaf in of_experiment:
            title = f"Runs of {experiment}" + (f", page {leaf.number}" if leaf.number > 1 else "")
            yield leaf.path, renderer.page("provenance.html", leaf.path, title, leaf=leaf, pages=pages)
    counts = Counter((row.experiment, row.status) for row in rows)
    experiments = [
        {
            "name": name,
            "finished": counts[name, "FINISHED"],
            "ended": counts[name, "FAILED"] + counts[name, "KILLED"],
            "running": counts[name, "RUNNING"] + counts[name, "SCHEDULED"],
            "pages": [leaf.path for leaf in leaves.get(name, ())],
        }
        for name in sorted({row.experiment for row in rows})
    ]
    yield RUNS[1], renderer.page("runs.html", RUNS[1], "The record of runs", experiments=experiments)


def _in_words(rows: Sequence[RunRow]) -> str:
    """The number of runs of each status, such as "125 finished and 25 killed runs"."""
    counts = Counter(row.status.lower() for row in rows)
    parts = [f"{counts[status.lower()]:,} {status.lower()}" for status in ALL if counts[status.lower()]]
    joined = " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)
    return f"{joined} {'run' if len(rows) == 1 else 'runs'}"
