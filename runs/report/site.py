"""The whole site: read the record once, render every page, and move the folder into place.

results/report/
    index.html          counts of cells by paper and verdict, methods, the newest runs
    papers/<work>.html  tables with verdicts and claims, figures
    claims.html, figures.html, errata.html
    experiments/        tables of experiments
    methods/            explanation and results of each method
    runs/               an entry for every run that contributes a number to a page
    figures/, style.css, sort.js, icon.svg
"""

import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from runs.cache import Store
from runs.config.configs import EvaluateConfig
from runs.record.code_version import code_version
from runs.record.query import RunRow, read_runs
from runs.report.addresses import numbered
from runs.report.convergence import convergence
from runs.report.figures import read_figures
from runs.report.methods import Method, methods
from runs.report.outcomes import CLAIMS, ERRATA, FIGURES, Outcomes, run_pages
from runs.report.papers import RESULTS, Reader
from runs.report.provenance import Provenance, newest
from runs.report.rendering import ASSETS, TEMPLATES, Renderer
from runs.storage.disk import put_in_place
from runs.storage.locks import Say, silent
from runs.tables.shipped import drawings, shipped_results
from runs.track import Tracker

ALL = ("FINISHED", "FAILED", "KILLED", "RUNNING", "SCHEDULED")
OUTCOMES_A_PAGE = 400
NEWEST = 12
OVERVIEW, METHODS, RUNS = ("Overview", "index.html"), ("Methods", "index.html#methods"), ("Runs", "runs/index.html")


@dataclass(frozen=True)
class Site:
    """Information about the whole site, available to every page: the variable `site` of the templates.

    Attributes:
        run: gives the path of the entry of a run, by its id.
        navigation: titles and paths of the pages that every page links.
        made, code, record: time, version of the code, and place of the record, for the foot of the page.
    """

    run: Callable[[str], str | None]
    navigation: tuple[tuple[str, str], ...] = ()
    made: str = ""
    code: str = ""
    record: str = ""


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
    with store.lock("report", "site", "the report", say):
        partial = store.root / "report.partial"
        _tidy(store.root)
        try:
            partial.mkdir(parents=True)
            for path, text in _pages(rows, tracker, experiments or {}):
                place = partial / path
                place.parent.mkdir(exist_ok=True)
                place.write_text(text, encoding="utf-8")
            for name in ASSETS:
                shutil.copyfile(TEMPLATES / name, partial / name)
            put_in_place(partial, store.root / "report")
        finally:
            shutil.rmtree(partial, ignore_errors=True)  # there is none if the site was built
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
    evaluations = [row for row in rows if row.status == "FINISHED" and row.experiment.startswith(RESULTS)]
    reader = Reader(evaluations, tracker, shipped_results())
    papers, experiments, known = reader.papers(), reader.experiments(asked), methods(rows)
    site = Site(
        navigation=(OVERVIEW, *((paper.work, paper.path) for paper in papers), CLAIMS, FIGURES, ERRATA, METHODS, RUNS),
        made=datetime.now(UTC).strftime("%Y-%m-%d %H:%M"),
        code=code_version()[:12],
        record=str(tracker.store.root) if tracker.own else tracker.place,
        run=provenance.href,
    )
    renderer = Renderer(site, {method.name: method.path for method in known})
    outcomes = Outcomes(papers, read_figures(rows, tracker, drawings()), experiments, renderer)
    yield from outcomes.pages()
    for method in known:
        yield from _method(method, renderer, tracker)
    yield (
        "index.html",
        renderer.page(
            "index.html",
            "index.html",
            "The papers and the record of runs",
            overview=outcomes.overview("index.html"),
            methods=known,
            newest=newest(rows, NEWEST),
            statuses=_in_words(rows),
        ),
    )
    yield from _runs(provenance, rows, renderer)


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


def _runs(provenance: Provenance, rows: Sequence[RunRow], renderer: Renderer) -> Iterator[tuple[str, str]]:
    """The pages of the entries. Rendered last, because the other pages request the entries."""
    yield from run_pages(provenance, renderer)
    counts = Counter((row.experiment, row.status) for row in rows)
    experiments = [
        {
            "name": name,
            "finished": counts[name, "FINISHED"],
            "ended": counts[name, "FAILED"] + counts[name, "KILLED"],
            "running": counts[name, "RUNNING"] + counts[name, "SCHEDULED"],
            "pages": provenance.pages(name),
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
