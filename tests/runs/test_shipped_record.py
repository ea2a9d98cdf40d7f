"""The shipped record beside the runs of the user, in a table of a paper."""

import dataclasses
import gzip
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from clustering.deep.fair_assignment import FairAssignment
from clustering.foundation.errors import InputError
from fsl.strategies.zero_shot import ZeroShot
from runs.cli import main
from runs.record.exported import ExportedRuns
from runs.record.query import read_runs
from runs.tables.evidence import look_up
from runs.tables.formats import FILES, footnotes, records
from runs.tables.formats.wording import runs
from runs.tables.papers.paper import paper_table
from runs.tables.papers.printed import Cause, Place
from runs.tables.papers.published import causes
from runs.track import Tracker
from tests.runs.records import add_runs

Change = Callable[[dict[str, str]], dict[str, str]]
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
def test_a_run_of_several_cells_of_a_row_is_named_once(tracker: Tracker) -> None:
    (bank,) = [line for line in runs(look_up(paper_table("thesis/3.2"), tracker), 8) if line.startswith("Bank")]
    run_id, _, columns = bank.removeprefix("Bank: ").partition(" (shipped) in ")
    assert columns == "Objective Ours, Fairness error / Balance Ours fairness error, Ours balance"
    assert len(run_id) == 8


@pytest.mark.usefixtures("shipped")
def test_a_cell_of_shipped_runs_alone_can_be_run_too(tracker: Tracker, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["table", "rs_transclip/1", f"results={tracker.store.root}"]) == 0
    assert "12 cells without runs of your own can be run" in capsys.readouterr().err


def test_own_runs_stand_beside_the_shipped_ones(tracker: Tracker, shipped: Path) -> None:
    exported = ExportedRuns(shipped)
    empty = paper_table("rs_transclip/1")
    ids = [result.run_id for cell in look_up(empty, tracker).cells.values() for result in cell.shipped][:4]
    exported.runs = [run for run in exported.runs if run.run_id in ids]
    add_runs(exported, tracker)
    assert len(read_runs(tracker, "evaluate/")) == len(ids)
    both = [cell for cell in look_up(empty, tracker).cells.values() if cell.results]
    assert len(both) == len(ids)
    assert all(cell.shipped and cell.value == pytest.approx(cell.shipped[0].value) for cell in both)


@pytest.fixture
def edited(tmp_path: Path, shipped: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Change], None]:
    """Changes the tags of all shipped runs."""

    def edit(change: Change) -> None:
        header, *lines = gzip.decompress(shipped.read_bytes()).splitlines()
        entries = [json.loads(line) for line in lines]
        changed = [json.dumps(entry | {"tags": change(entry["tags"])}).encode() for entry in entries]
        path = tmp_path / "changed.jsonl"
        path.write_bytes(b"\n".join([header, *changed]))
        monkeypatch.setattr("runs.tables.shipped.PLACE", path)

    return edit


def test_tags_about_code_do_not_matter(tracker: Tracker, edited: Callable[[Change], None]) -> None:
    before = look_up(paper_table("rs_transclip/1"), tracker).statuses
    edited(lambda tags: {name: text for name, text in tags.items() if name not in ("recipe", "small_case", "identity")})
    assert look_up(paper_table("rs_transclip/1"), tracker).statuses == before == {"reproduced": 12}


@pytest.mark.usefixtures("shipped")
@pytest.mark.parametrize("raised", [ZeroShot, FairAssignment])
def test_runs_of_an_earlier_revision_do_not_count(
    tracker: Tracker, monkeypatch: pytest.MonkeyPatch, raised: type
) -> None:
    name = {ZeroShot: "rs_transclip/1", FairAssignment: "entropy/I"}[raised]
    before = look_up(paper_table(name), tracker)
    monkeypatch.setattr(raised, "revision", 2, raising=False)
    table = look_up(paper_table(name), tracker)
    lost = [place for place, cell in table.cells.items() if before.cells[place].shipped and not cell.shipped]
    of_class = []
    for place, cell in before.cells.items():
        config = cell.few_shot or cell.clustering
        choice = getattr(config, "strategy", None) or getattr(config, "method", None)
        if cell.shipped and choice is not None and issubclass(choice.kind, raised):
            of_class.append(place)
    assert lost == of_class
    assert lost


@pytest.mark.parametrize(("revisions", "counts"), [("", True), ("strategy 2", False)])
def test_a_run_counts_by_its_tag_of_revisions(
    tracker: Tracker, edited: Callable[[Change], None], revisions: str, counts: bool
) -> None:
    edited(lambda tags: tags | {"revisions": revisions})
    table = look_up(paper_table("rs_transclip/1"), tracker)
    assert all(bool(cell.shipped) == counts for cell in table.cells.values())


def test_without_a_shipped_record_nothing_is_shown(tracker: Tracker) -> None:
    table = look_up(paper_table("rs_transclip/1"), tracker)
    assert table.statuses == {"not run": 12}


@pytest.mark.parametrize("content", [b"", b"no archive", RECORD.read_bytes()[:1000]], ids=["empty", "other", "cut"])
def test_a_damaged_shipped_record_is_named(
    tracker: Tracker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes
) -> None:
    place = tmp_path / "record.jsonl.gz"
    place.write_bytes(content)
    monkeypatch.setattr("runs.tables.shipped.PLACE", place)
    with pytest.raises(InputError, match=r"record\.jsonl\.gz.* restore this file"):
        look_up(paper_table("rs_transclip/1"), tracker)


@pytest.mark.parametrize("make", [Path.mkdir, lambda place: place.symlink_to("none")], ids=["folder", "dangling"])
def test_a_shipped_record_that_is_no_file_is_named(
    tracker: Tracker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[[Path], None]
) -> None:
    place = tmp_path / "record.jsonl.gz"
    make(place)
    monkeypatch.setattr("runs.tables.shipped.PLACE", place)
    with pytest.raises(InputError, match=r"record\.jsonl\.gz.* restore this file"):
        look_up(paper_table("rs_transclip/1"), tracker)


@pytest.mark.usefixtures("shipped")
@pytest.mark.parametrize("features", ["[" * 100, "a.npz,b.npz", "a.npz,"])
def test_an_imported_run_of_unreadable_features_fills_no_cell(tracker: Tracker, shipped: Path, features: str) -> None:
    exported = ExportedRuns(shipped)
    run = next(run for run in exported.runs if run.experiment == "evaluate/features")
    exported.runs = [dataclasses.replace(run, params={**run.params, "features": features})]
    add_runs(exported, tracker)
    table = look_up(paper_table("rs_transclip/1"), tracker)
    assert len(read_runs(tracker, "evaluate/")) == 1
    assert not any(cell.results for cell in table.cells.values())


@pytest.mark.usefixtures("shipped")
@pytest.mark.parametrize("name", ["rs_transclip/1", "thesis/3.2"])
@pytest.mark.parametrize("change", [{"params": {"seed": "9" * 5000}}, {"tags": {"features": ""}}], ids=str)
def test_runs_with_strange_seeds_or_without_their_features_stop_no_table(
    tracker: Tracker, shipped: Path, name: str, change: dict[str, dict[str, str]]
) -> None:
    exported = ExportedRuns(shipped)
    before = look_up(paper_table(name), tracker)
    shown = {result.run_id for cell in before.cells.values() for result in cell.shipped}
    exported.runs = [
        replace(run, params=run.params | change.get("params", {}), tags=run.tags | change.get("tags", {}))
        for run in exported.runs
        if run.run_id in shown
    ]
    add_runs(exported, tracker)
    table = look_up(paper_table(name), tracker)
    filled = any(cell.results for cell in table.cells.values())
    assert filled == (name == "thesis/3.2" and "tags" in change)  # which has no features


@pytest.mark.usefixtures("shipped")
def test_the_cause_of_a_difference_is_a_footnote_of_its_cells_in_every_format(tracker: Tracker) -> None:
    table = look_up(paper_table("thesis/3.2"), tracker)
    below = table.at("Adult", "Objective Ours")
    assert below.verdict is not None
    assert below.verdict.cause is not None
    assert below.verdict.cause.cause == "unknown"
    found = {record["cause"] for record in records.records(table) if record["verdict"] in ("above", "below")}
    assert found == {cause.cause for cause in causes().values() if any(at.table == "thesis/3.2" for at in cause.where)}
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
