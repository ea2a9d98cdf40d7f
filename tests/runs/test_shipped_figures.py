"""Drawings of the shipped record: shown where the user has none."""

import dataclasses
import functools
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runs.record.exported import ExportedRuns, write_runs
from runs.record.query import NOTE, SOURCES, RunRow, source_runs, source_tags
from runs.record.tracked_run import TAG_LENGTH
from runs.report.figures import Figure, read_figures
from runs.track import Tracker

SHIPPED = Path(__file__).parents[2] / "reproduction" / "record.jsonl.gz"
NAME, FILE, DRAWING = "thesis/3.1", "thesis-3.1.svg", "<svg xmlns='http://www.w3.org/2000/svg'/>"


@pytest.fixture(scope="module")
def whole() -> ExportedRuns:
    return ExportedRuns(SHIPPED)


@pytest.fixture
def source(whole: ExportedRuns) -> RunRow:
    """A shipped run."""
    fair = [run for run in whole.runs if run.experiment == "fair/synthetic"]
    return next(run for run in fair if run.tags["method"] == "fair_kmedian")


Shown = Callable[..., Figure]


@pytest.fixture
def shown(tmp_path: Path, whole: ExportedRuns, tracker: Tracker) -> Shown:
    """Gives the figure that is shown if the shipped record has a run, and a figure drawn from runs."""
    return functools.partial(_shown, tmp_path, whole, tracker)


def _shown(
    tmp_path: Path, whole: ExportedRuns, tracker: Tracker, source: RunRow, sources: str, own: tuple[RunRow, ...] = ()
) -> Figure:
    tags = {"stage": "figure", "source_runs": sources, NOTE: "A caption"}
    drawn = dataclasses.replace(source, run_id="f" * 32, name=NAME, experiment=f"figure/{NAME}", tags=tags, metrics={})
    path = tmp_path / "runs.jsonl"
    files = {source.run_id: whole.files[source.run_id], drawn.run_id: {FILE: DRAWING.encode()}}
    write_runs(path, [source, drawn], lambda run: files[run.run_id])
    figures = read_figures(own, tracker, ExportedRuns(path))
    (figure,) = (one for one in figures["thesis"] if one.name == NAME)
    return figure


def test_a_drawing_of_the_shipped_record_is_shown(shown: Shown, source: RunRow) -> None:
    figure = shown(source, source.run_id)
    assert (figure.svg, figure.caption, figure.run_id, figure.shipped) == (DRAWING, "A caption", "f" * 32, True)
    assert figure.about


@given(st.integers(0, 1000))
def test_tags_with_the_sources_of_a_figure(count: int) -> None:
    run_ids = [f"{i:032x}" for i in range(count)]
    tags = source_tags(run_ids)
    assert source_runs(tags) == run_ids
    assert SOURCES in tags
    assert all(len(value) <= TAG_LENGTH for value in tags.values())


def test_a_drawing_of_the_user_comes_first(shown: Shown, source: RunRow) -> None:
    tags = {"stage": "figure", "source_runs": "", NOTE: "My caption"}
    own = dataclasses.replace(source, run_id="a" * 32, name=NAME, tags=tags)
    figure = shown(source, source.run_id, (own,))
    assert (figure.caption, figure.run_id, figure.shipped) == ("My caption", "a" * 32, False)
