"""Drawings of the shipped record: shown where the user has none, and marked as stale if their runs do not count."""

import dataclasses
import functools
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from runs.record.exports.outcome import SMALL_CASE

from runs.record.exports.exported import ExportedRuns, write_runs
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
    """A shipped run that the present code repeats."""
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
    assert figure.stale == ""


def test_a_drawing_is_stale_if_its_run_does_not_count(shown: Shown, source: RunRow) -> None:
    before = json.loads(source.tags[SMALL_CASE])
    changed = {**before, "objective": [2 * value for value in before["objective"]]}
    tags = {**source.tags, "recipe": "of other code", SMALL_CASE: json.dumps(changed)}
    figure = shown(dataclasses.replace(source, tags=tags), source.run_id)
    assert source.run_id in figure.stale
    assert "small case gives objective" in figure.stale


def test_a_drawing_is_stale_without_its_runs(shown: Shown, source: RunRow) -> None:
    assert "not in the shipped record" in shown(source, "0" * 32).stale


@given(st.integers(0, 1000))
def test_tags_with_the_sources_of_a_figure(count: int) -> None:
    run_ids = [f"{i:032x}" for i in range(count)]
    tags = source_tags(run_ids)
    assert source_runs(tags) == run_ids
    assert SOURCES in tags
    assert all(len(value) <= TAG_LENGTH for value in tags.values())


def test_a_tuning_makes_no_drawing_stale(shown: Shown, source: RunRow) -> None:
    """Its trials are sources of the same drawing."""
    assert shown(dataclasses.replace(source, tags={"stage": "tuning"}), source.run_id).stale == ""


def test_a_drawing_of_the_user_comes_first(shown: Shown, source: RunRow) -> None:
    tags = {"stage": "figure", "source_runs": "", NOTE: "My caption"}
    own = dataclasses.replace(source, run_id="a" * 32, name=NAME, tags=tags)
    figure = shown(source, source.run_id, (own,))
    assert (figure.caption, figure.run_id, figure.shipped) == ("My caption", "a" * 32, False)
