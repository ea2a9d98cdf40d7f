"""The whole site: read the record once, render every page, and move the folder into place.

results/report/
    index.html          counts of cells by paper and verdict, the newest runs
    papers/<work>.html  tables with verdicts and claims, figures
    claims.html, figures.html, errata.html
    experiments/        tables of experiments
    runs/               an entry for every run that contributes a number to a page
    figures/, style.css, results.css, sort.js, icon.svg
"""

import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from runs.cache import Store
from runs.config.configs import EvaluateConfig
from runs.record.code_version import code_version
from runs.record.query import RunRow, read_runs
from runs.report.figures import read_figures
from runs.report.outcomes import CLAIMS, ERRATA, FIGURES, Outcomes
from runs.report.papers import RESULTS, Reader
from runs.report.provenance import Provenance
from runs.report.rendering import ASSETS, TEMPLATES, Renderer, Site, date, link, sections
from runs.report.sections import Section, table_of
from runs.storage.disk import put_in_place
from runs.storage.locks import Say, silent
from runs.tables.shipped import drawings, shipped_results
from runs.track import Tracker

ALL = ("FINISHED", "FAILED", "KILLED", "RUNNING", "SCHEDULED")
NEWEST = 12
INDEX, RUNS = "index.html", ("Runs", "runs/index.html")
ABOUT = (
    "What the papers print, what the project's shipped runs and your own runs give, and whether they agree. Every "
    "result leads to its run: the config, the commit, the machine, and the fingerprints of its inputs.",
    "A few-shot number such as 62.2 ± 1.9 is the mean over many small tasks drawn at random, and how far chance may "
    "have moved it: 95 of 100 such intervals contain the mean over all possible tasks. Bold is better than all else in "
    "its column by more than chance, compared on the same tasks.",
)


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
    """(path, text) of every page. The entries come last, because the other pages request them."""
    provenance = Provenance(rows, tracker.place if tracker.is_server else None)
    results = [row for row in rows if row.status == "FINISHED" and row.experiment.startswith(RESULTS)]
    reader = Reader(results, tracker, shipped_results())
    papers, experiments = reader.papers(), reader.experiments(asked)
    of_papers = [(paper.work, paper.path) for paper in papers]
    navigation = (("Overview", INDEX), *of_papers, CLAIMS, FIGURES, ERRATA, RUNS)
    site = Site(
        run=provenance.href,
        navigation=navigation,
        made=datetime.now(UTC).strftime("%Y-%m-%d %H:%M"),
        code=code_version()[:12],
        record=str(tracker.store.root) if tracker.own else tracker.place,
    )
    renderer = Renderer(site)
    outcomes = Outcomes(papers, read_figures(rows, tracker, drawings()), experiments, renderer)
    yield from outcomes.pages()
    own = sections([_newest(rows, renderer)])
    yield renderer.page(INDEX, "The papers and the record of runs", (), ABOUT, outcomes.overview(INDEX) + own)
    yield from provenance.pages(renderer)
    yield _experiments(rows, provenance, renderer)


def _newest(rows: Sequence[RunRow], renderer: Renderer) -> Section:
    """The number of runs of each status, and the newest ones."""
    if not rows:
        return Section("Newest runs", ["There is no run of yours in the record yet."], anchor="newest")
    counts = Counter(row.status.lower() for row in rows)
    words = [f"{counts[status.lower()]:,} {status.lower()}" for status in ALL if counts[status.lower()]]
    last = sorted(rows, key=lambda row: (-row.start, row.run_id))[:NEWEST]
    shown = [
        (
            renderer.run_link(INDEX, run.run_id, run.name),
            run.experiment,
            " ".join([run.status.lower(), run.tags.get("ended", "")[:300]]),
            *(
                f"{100 * run.metrics[name]:.2f}" if name in run.metrics else ""
                for name in ("accuracy", "accuracy_ci95")
            ),
            date(run.start),
        )
        for run in last
    ]
    table = table_of(["run", "*experiment", "*status", "accuracy, %", "±", "*began (UTC)"], shown, sortable=True)
    return Section("Newest runs", [f"Runs in the record: {', '.join(words)}."], tables=[table], anchor="newest")


def _experiments(rows: Sequence[RunRow], provenance: Provenance, renderer: Renderer) -> tuple[str, str]:
    """The page of all experiments, with the numbers of their runs."""
    counts = Counter((row.experiment, row.status) for row in rows)
    linked = {run.experiment for run in provenance.requested.values()}
    table = [
        (
            link(RUNS[1], provenance.page_of(name), name) if name in linked else name,
            *(str(counts[name, status]) for status in ALL),
        )
        for name in sorted({row.experiment for row in rows})
    ]
    about = "Runs that a page of this site shows a number of, and the runs that these were made from, have an entry."
    shown = table_of(["experiment", *map(str.lower, ALL)], table, sortable=True)
    return renderer.page(RUNS[1], "The record of runs", [Section("Experiments", [about], tables=[shown])])
