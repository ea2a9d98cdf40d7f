"""Figures in the record: each is a run with its files, its caption, and the ids of the runs that it was drawn from."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from runs.cache import key as key_of
from runs.config.configs import RunConfig
from runs.config.overrides import write
from runs.figures.drawing import Drawing, run_ids
from runs.figures.style import save_for_print
from runs.record.query import NOTE, source_tags
from runs.storage.locks import Say, silent

if TYPE_CHECKING:
    from runs.cache import Store
    from runs.track import Tracker


@dataclass(frozen=True)
class LoggedFigure:
    """A figure that is drawn, saved and recorded.

    Attributes:
        name: such as "thesis/4.1@glyphs".
        files: PDF, SVG and PNG, in the results folder.
        caption: its caption.
        run_id: id of the MLflow run that holds it.
        reused: whether the record had it.
        sources: ids of the runs that it was drawn from.
    """

    name: str
    files: tuple[Path, ...]
    caption: str
    run_id: str
    reused: bool
    sources: tuple[str, ...]


def file_stem(name: str) -> str:
    """The name of the files of a figure, without suffix."""
    return re.sub(r"[^\w.]+", "-", name)


def logged_figure(
    name: str,
    drawing: Drawing,
    results: Sequence[Any],
    store: "Store",
    tracker: "Tracker",
    *,
    say: Say = silent,
    force: bool = False,
    files_as: str = "",
) -> LoggedFigure:
    """Draw a figure of results, and record it unless one of the same runs is in the record.

    Args:
        results: what `drawing.read` gave, for at least one config.
        force: record it again.
        files_as: name of its files, without suffix, if `name` alone is not unique.

    Raises:
        InputError: the results make no such figure.
    """
    sources = tuple(run_id for one in results for run_id in run_ids(one))
    key = key_of("figure", {"name": files_as or name}, {"sources": sources}, {"drawing": drawing.revision})
    experiment = f"figure/{name.partition('@')[0]}"
    caption, stem = drawing.caption(results), file_stem(files_as or name)
    with store.lock("figure", key, f"the figure {name}", say):
        files = save_for_print(drawing.draw(results), store.figures, stem, title=name, about=caption)
        if not force and (run := tracker.find(key)):
            return LoggedFigure(name, files, caption, run.info.run_id, True, sources)
        started = tracker.unfinished(experiment, [key]).get(key) or tracker.start(
            experiment,
            name,
            stage="figure",
            key=key,
            params=_params([one.config for one in results]),
            config=_described(results),
            tags={NOTE: caption, **source_tags(sources)},
        )
        with started.guarded():
            for path in files:
                started.artifact(path)
            started.finish()
    return LoggedFigure(name, files, caption, started.run_id, False, sources)


def _params(configs: Sequence[RunConfig]) -> dict[str, str]:
    """The values of each key over all configs."""
    values: dict[str, list[str]] = {}
    for config in configs:
        for key, value in config.flat().items():
            values.setdefault(key, []).append(write(value))
    return {key: ", ".join(dict.fromkeys(texts)) for key, texts in values.items()}


def _described(results: Sequence[Any]) -> str:
    """Every config as YAML, with the runs that were read for it."""
    parts = [f"# runs: {' '.join(run_ids(one))}\n{one.config.to_yaml()}" for one in results]
    return "---\n".join(parts)
