"""The shipped record beside the runs of the user, in a table of a paper."""

from pathlib import Path

import pytest

from runs.record.exported import ExportedRuns
from runs.record.query import read_runs
from runs.record.tracking import Tracker
from runs.record.transfer import import_runs
from runs.tables.evidence import look_up
from runs.tables.formats import FILES, footnotes, records
from runs.tables.papers.paper import paper_table
from runs.tables.papers.printed import Cause, Place
from runs.tables.papers.published import causes

RECORD = Path(__file__).parents[2] / "reproduction" / "record.jsonl.gz"


@pytest.fixture
def shipped(monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("runs.tables.shipped.PLACE", RECORD)
    return RECORD


@pytest.mark.usefixtures("shipped")
def test_a_table_without_runs_shows_the_shipped_ones(tracker: Tracker) -> None:
    table = look_up(paper_table("rs_transclip/1"), tracker)
    assert table.statuses == {"reproduced": 12}
    assert not any(cell.results for cell in table.cells.values())
    assert all(record["shipped"] > 0 and record["shipped_runs"] for record in records.records(table))
    assert any(note.startswith("shipped: runs of commit ") for note in table.notes)
    assert all("shipped" in FILES[ending](table) for ending in ("md", "html", "csv"))


@pytest.mark.usefixtures("shipped")
def test_own_runs_stand_beside_the_shipped_ones(tracker: Tracker, shipped: Path) -> None:
    exported = ExportedRuns(shipped)
    empty = paper_table("rs_transclip/1")
    ids = [result.run_id for cell in look_up(empty, tracker).cells.values() for result in cell.shipped][:4]
    exported.runs = [run for run in exported.runs if run.run_id in ids]
    import_runs(exported, tracker)
    assert len(read_runs(tracker, "evaluate/")) == len(ids)
    both = [cell for cell in look_up(empty, tracker).cells.values() if cell.results]
    assert len(both) == len(ids)
    assert all(cell.shipped and cell.value == pytest.approx(cell.shipped[0].value) for cell in both)


@pytest.mark.usefixtures("shipped")
def test_a_shipped_run_of_other_code_fills_nothing(tracker: Tracker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runs.tables.filling.recipe", lambda *_: "another")
    table = look_up(paper_table("rs_transclip/1"), tracker)
    assert not any(cell.shipped for cell in table.cells.values())


def test_without_a_shipped_record_nothing_is_shown(tracker: Tracker) -> None:
    table = look_up(paper_table("rs_transclip/1"), tracker)
    assert table.statuses == {"not run": 12}


@pytest.mark.usefixtures("shipped")
def test_the_cause_of_a_difference_is_a_footnote_of_its_cells_in_every_format(tracker: Tracker) -> None:
    table = look_up(paper_table("thesis/3.2"), tracker)
    below = table.at("Adult", "Objective Ours")
    assert below.verdict is not None
    assert below.verdict.cause is not None
    assert below.verdict.cause.cause == "unknown"
    found = {record["cause"] for record in records.records(table) if record["verdict"] in ("above", "below")}
    assert found == {"", "unknown", causes()["D01"].cause}
    assert not any(record["cause"] for record in records.records(table) if record["verdict"] == "reproduced")
    (note,) = [note for note in footnotes.footnotes(table) if note.id == "D02"]
    assert note.mark in footnotes.marks(footnotes.footnotes(table), table.rows[2], below)
    for ending in ("md", "html", "tex"):
        assert "cause of the difference: unknown" in " ".join(FILES[ending](table).split())


@pytest.mark.usefixtures("shipped")
def test_a_cell_that_is_reproduced_or_on_other_data_has_no_cause(tracker: Tracker) -> None:
    """Even if the file names it; on other data the differences are others."""
    everything = Cause("D99", "this", "that", (Place("thesis/3.2"),))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("runs.tables.papers.paper.causes", lambda: {"D99": everything})
        table = look_up(paper_table("thesis/3.2"), tracker)
        elsewhere = look_up(paper_table("thesis/3.2@synthetic"), tracker)
    verdicts = [cell.verdict for cell in table.cells.values() if cell.verdict]
    assert all((verdict.cause is everything) == (verdict.status in ("above", "below")) for verdict in verdicts)
    assert not any(cell.verdict.cause for cell in elsewhere.cells.values() if cell.verdict)
