"""Drawings that the project ships: shown where the user has none."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runs.record.query import SOURCES, RunRow, source_runs, source_tags
from runs.record.tracked_run import TAG_LENGTH
from runs.report.figures import read_figures
from runs.tables.shipped import drawings
from runs.track import Tracker

SHIPPED = Path(__file__).parents[2] / "reproduction"
NAME = "thesis/3.1"


@pytest.mark.parametrize("own", [False, True])
def test_a_shipped_drawing_is_shown_unless_the_user_has_one(
    tracker: Tracker, monkeypatch: pytest.MonkeyPatch, own: bool
) -> None:
    monkeypatch.setattr("runs.tables.shipped.PLACE", SHIPPED)
    mine = "<?xml <dc:description>My &lt; caption</dc:description>"
    monkeypatch.setattr("runs.report.figures._svg", lambda row, tracker: mine)
    row = RunRow("a" * 32, NAME, "figure", 0, 0, "FINISHED", {}, {}, {"stage": "figure"}, "")
    figures = read_figures([row] if own else [], tracker, drawings())
    (figure,) = (one for one in figures["thesis"] if one.name == NAME)
    assert figure.state == ("drawn" if own else "drawn (shipped)")
    assert figure.about
    assert figure.caption == "My < caption" if own else "fairness" in figure.caption
    assert own or figure.svg.startswith("<?xml")


@given(st.integers(0, 1000))
def test_tags_with_the_sources_of_a_figure(count: int) -> None:
    run_ids = [f"{i:032x}" for i in range(count)]
    tags = source_tags(run_ids)
    assert source_runs(tags) == run_ids
    assert SOURCES in tags
    assert all(len(value) <= TAG_LENGTH for value in tags.values())
