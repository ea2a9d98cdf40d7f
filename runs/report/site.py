"""The record of runs as a static site: read the record once, render every page, and move the folder into place.

results/report/
    index.html          counts of cells by paper and verdict
    papers/<work>.html  tables with verdicts and claims, figures
    claims.html, errata.html
    experiments/        tables of experiments
    figures/, style.css, results.css, icon.svg

Each result links to its run in MLflow: on its server, or where `transduce ui` shows it.
"""

import shutil
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from runs.cache import Store
from runs.config.configs import EvaluateConfig
from runs.record.code_version import code_version
from runs.record.query import RunRow, read_runs
from runs.record.server import HOST, PORT, address
from runs.report.figures import read_figures
from runs.report.outcomes import CLAIMS, ERRATA, Outcomes
from runs.report.papers import RESULTS, Reader
from runs.report.rendering import ASSETS, TEMPLATES, environment, relative, rendered
from runs.storage.disk import put_in_place
from runs.storage.locks import Say, silent
from runs.tables.shipped import drawings, shipped_results
from runs.track import Tracker

INDEX = "index.html"
ABOUT = (
    "What the papers print beside the results here. A verdict says whether a printed number was reproduced. Each "
    "result of yours links to its run in MLflow (start it by transduce ui): settings, commit, machine and data.",
    "± is the 95 % interval of a mean: 95 of 100 such intervals contain the mean over all possible tasks. Bold is "
    "better than all else in its column by more than chance, compared on the same tasks.",
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
    rows = read_runs(tracker, "")
    with store.lock("report", "site", "the report", say):
        unfinished = store.root / "report.partial"
        for old in store.root.glob("report.*"):  # of a process that was killed
            shutil.rmtree(old)
        try:
            for path, text in _pages(rows, tracker, experiments or {}).items():
                place = unfinished / path
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_text(text, encoding="utf-8")
            for name in ASSETS:
                shutil.copyfile(TEMPLATES / name, unfinished / name)
            put_in_place(unfinished, store.root / "report")
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)  # there is none if the site was built
    return store.root / "report" / INDEX


def _pages(rows: Sequence[RunRow], tracker: Tracker, asked: Mapping[str, Sequence[EvaluateConfig]]) -> dict[str, str]:
    """The text of every page by its path."""
    reader = Reader([row for row in rows if row.experiment.startswith(RESULTS)], tracker, shipped_results())
    papers, experiments = reader.papers(), reader.experiments(asked)
    record = str(tracker.store.root) if tracker.own else tracker.place
    made = f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
    server = tracker.place.rstrip("/") if tracker.place.startswith("http") else address(HOST, PORT)
    figures = read_figures(rows, tracker, drawings())
    outcomes = Outcomes(papers, figures, experiments, lambda run_id: f"{server}/#/runs/{run_id}")
    none = [] if rows else ["There is no run of yours yet."]
    index = INDEX, "The papers and the record of runs", rendered([], [*ABOUT, *none]) + outcomes.overview(INDEX)
    site = {
        "navigation": [("Overview", INDEX), *((one.work, one.path) for one in papers), CLAIMS, ERRATA],
        "foot": f"Made {made} by transduce report, code {code_version()[:12]}, from {record}.",
    }
    template = environment().get_template("page.html")
    pages = {
        path: template.render(title=title, body=body, path=path, to=partial(relative, path), **site)
        for path, title, body in (*outcomes.pages(), index)
    }
    return pages | outcomes.drawings
