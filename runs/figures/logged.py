"""Figures in the record: each is a run with its files, its caption, and the ids of the runs that it was drawn from."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from runs.cache import key as key_of
from runs.config.overrides import write
from runs.figures.style import save_for_print
from runs.record.query import NOTE
from runs.storage.locks import Say, silent

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from runs.cache import Store
    from runs.track import Tracker


@dataclass(frozen=True)
class LoggedFigure:
    """A figure that is drawn, saved and recorded."""

    name: str  # such as "thesis/4.1@glyphs"
    files: tuple[Path, ...]  # PDF, SVG and PNG, in the results folder
    caption: str
    run_id: str  # id of the MLflow run that holds it
    reused: bool  # whether the record had it
    sources: tuple[str, ...]  # ids of the runs that it was drawn from


def file_stem(name: str) -> str:
    """The name of the files of a figure, without suffix."""
    return re.sub(r"[^\w.]+", "-", name)


def run_ids(result: Any) -> Sequence[str]:
    """The ids of the runs that a result is from."""
    found: Sequence[str] = result.run_ids if hasattr(result, "run_ids") else [result.run_id]
    return found


def logged_figure(
    name: str,
    figure: "Figure",
    caption: str,
    results: Sequence[Any],
    store: "Store",
    tracker: "Tracker",
    *,
    revision: int = 1,
    say: Say = silent,
    force: bool = False,
    files_as: str = "",
) -> LoggedFigure:
    """Save a figure of results, and record it unless one of the same runs is in the record.

    Args:
        results: what it shows, at least one.
        revision: raise it with a change of how the figure is drawn.
        force: record it again.
        files_as: name of its files, without suffix, if `name` alone is not unique.
    """
    sources = tuple(run_id for one in results for run_id in run_ids(one))
    key = key_of("figure", {"name": files_as or name}, {"sources": sources}, {"drawing": revision})
    experiment = f"figure/{name.partition('@')[0]}"
    with store.lock("figure", key, f"the figure {name}", say):
        files = save_for_print(figure, store.figures, file_stem(files_as or name), title=name, about=caption)
        if not force and (run := tracker.find(key)):
            return LoggedFigure(name, files, caption, run.info.run_id, True, sources)
        values: dict[str, dict[str, None]] = {}  # of each key over all configs, in order
        for one in results:
            for field, value in one.config.flat().items():
                values.setdefault(field, {})[write(value)] = None
        started = tracker.unfinished(experiment, [key]).get(key) or tracker.start(
            experiment,
            name,
            stage="figure",
            key=key,
            params={field: ", ".join(texts) for field, texts in values.items()},
            config="---\n".join(f"# runs: {' '.join(run_ids(one))}\n{one.config.to_yaml()}" for one in results),
            tags={NOTE: caption, "source_runs": " ".join(sources)},
        )
        with started.guarded():
            for path in files:
                started.artifact(path)
            started.finish()
    return LoggedFigure(name, files, caption, started.run_id, False, sources)
