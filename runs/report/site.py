"""The record of runs as a static site: read the record once, render every page, and move the folder into place.

results/report/
    index.html          counts of cells by paper and verdict
    papers/<work>.html  tables with verdicts and claims, figures
    claims.html, figures.html, errata.html
    experiments/        tables of experiments
    runs.html           the runs that the pages show numbers of, and the newest ones
    figures/, style.css, results.css, icon.svg
"""

import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from markupsafe import Markup

from runs.cache import Store
from runs.config.configs import EvaluateConfig
from runs.record.origin import code_version
from runs.record.query import RunRow, read_runs
from runs.report.figures import read_figures
from runs.report.outcomes import CLAIMS, ERRATA, FIGURES, Outcomes
from runs.report.papers import RESULTS, Reader
from runs.report.rendering import ASSETS, TEMPLATES, Renderer
from runs.report.sections import Section, table_of
from runs.storage.disk import put_in_place
from runs.storage.locks import Say, silent
from runs.tables.shipped import drawings, shipped_results
from runs.track import Tracker

ALL = ("FINISHED", "FAILED", "KILLED", "RUNNING", "SCHEDULED")
NEWEST = 12
INDEX, RUNS = "index.html", ("Runs", "runs.html")
FINGERPRINTS = ("data", "target_data", "base_images", "weights", "checkpoint", "features")  # tags of inputs
ABOUT = (
    "What the papers print, what the project's shipped runs and your own runs give, and whether they agree. Every "
    "result of yours leads to its run, with the commit, the machine, and the fingerprints of its inputs.",
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
        for old in store.root.glob("report.*"):  # of a process that was killed
            shutil.rmtree(old)
        try:
            for path, text in _pages(rows, tracker, experiments or {}):
                place = partial / path
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_text(text, encoding="utf-8")
            for name in ASSETS:
                shutil.copyfile(TEMPLATES / name, partial / name)
            put_in_place(partial, store.root / "report")
        finally:
            shutil.rmtree(partial, ignore_errors=True)  # there is none if the site was built
    return store.root / "report" / INDEX


def _pages(
    rows: Sequence[RunRow], tracker: Tracker, asked: Mapping[str, Sequence[EvaluateConfig]]
) -> Iterator[tuple[str, str]]:
    """(path, text) of every page. That of the runs comes last, because the other pages ask for runs."""
    by_id = {row.run_id: row for row in rows}
    requested: dict[str, RunRow] = {}

    def place_of(run_id: str) -> str | None:
        if run_id not in by_id:
            return None
        requested[run_id] = by_id[run_id]
        return f"{RUNS[1]}#run-{run_id}"

    results = [row for row in rows if row.status == "FINISHED" and row.experiment.startswith(RESULTS)]
    reader = Reader(results, tracker, shipped_results())
    papers, experiments = reader.papers(), reader.experiments(asked)
    record = str(tracker.store.root) if tracker.own else tracker.place
    made = f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
    renderer = Renderer(
        run=place_of,
        navigation=(("Overview", INDEX), *((one.work, one.path) for one in papers), CLAIMS, FIGURES, ERRATA, RUNS),
        foot=f"Made {made} by transduce report, code {code_version()[:12]}, from {record}.",
    )
    outcomes = Outcomes(papers, read_figures(rows, tracker, drawings()), experiments, renderer)
    yield from outcomes.pages()
    yield renderer.page(INDEX, "The papers and the record of runs", (), ABOUT, outcomes.overview(INDEX))
    newest = {row.run_id: row for row in sorted(rows, key=lambda row: (-row.start, row.run_id))[:NEWEST]}
    counts = Counter(row.status for row in rows)
    words = ", ".join(f"{counts[status]:,} {status.lower()}" for status in ALL if counts[status])
    about = [
        f"Runs in the record: {words or 'none of yours yet'}. transduce ui opens them in MLflow, with their configs "
        "and metrics.",
        "Listed are those that a page of this site shows a number of, and the newest ones. Fingerprints are digits "
        "computed from the content of the inputs.",
    ]
    headings = ["run", "*experiment", "*status", "*key", "*commit", "*machine", "*fingerprints", "*began (UTC)"]
    shown = [_run(run, None if tracker.own else tracker.place) for run in (newest | requested).values()]
    yield renderer.page(
        RUNS[1], "Runs", [Section("Commits, machines and inputs", tables=[table_of(headings, shown)])], about
    )


def _run(run: RunRow, server: str | None) -> list[str | Markup]:
    """The row of a run; on a server, with a link to its page there."""
    anchor, name = Markup('<span id="run-{}">{}</span>').format(run.run_id, run.name), run.run_id
    page = f"{server.rstrip('/')}/#/runs/{run.run_id}" if server and server.startswith("http") else ""
    link = Markup('<a href="{}" rel="noreferrer">{}</a>').format(page, name) if page else name
    status = " ".join([run.status.lower(), run.tags.get("ended", "")[:300]])
    prints = "; ".join(f"{name} {run.tags[name]}" for name in FINGERPRINTS if run.tags.get(name))
    began = ""
    with suppress(ValueError, OverflowError, OSError):  # no date of a calendar
        began = f"{datetime.fromtimestamp(run.start / 1000, UTC):%Y-%m-%d %H:%M}"
    origin = run.tags.get("key", ""), run.tags.get("code", "")[:12], run.tags.get("machine", "")
    return [Markup("{}<br>{}").format(anchor, link), run.experiment, status, *origin, prints, began]
