"""The shipped record beside the runs of the user, in a table of a paper."""

import dataclasses
import gzip
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from runs.record.exports.outcome import SMALL_CASE
from runs.stages.small_cases.outcomes import recipe_of

from clustering.deep.fair_assignment import FairAssignment
from clustering.foundation.errors import InputError
from fsl.episodes import Episodes, Predictions
from fsl.strategies.zero_shot import ZeroShot
from runs.cli import main
from runs.record.exports.exported import ExportedRuns, write_runs
from runs.record.exports.transfer import import_runs
from runs.record.query import read_runs
from runs.tables.counts import Counts
from runs.tables.evidence import look_up
from runs.tables.formats import FILES, footnotes, records
from runs.tables.formats.wording import legend, runs
from runs.tables.papers.paper import paper_table
from runs.tables.papers.printed import Cause, Place
from runs.tables.papers.published import causes
from runs.tables.table import Table
from runs.track import Tracker

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


@pytest.fixture
def this_code(tmp_path: Path, shipped: Path, tracker: Tracker, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The shipped runs of one table, as if the present code had made them."""
    whole = ExportedRuns(shipped)
    by_id = {run.run_id: run for run in whole.runs}
    made = []
    for cell in look_up(paper_table("rs_transclip/1"), tracker).cells.values():
        assert cell.few_shot is not None
        for run in (by_id[result.run_id] for result in cell.shipped):
            made.append(replace(run, tags={**run.tags, "recipe": recipe_of(cell.few_shot, run)}))
    path = tmp_path / "of_this_code.jsonl"
    write_runs(path, made, lambda run: whole.files[run.run_id])
    monkeypatch.setattr("runs.tables.shipped.PLACE", path)
    return path


def test_own_runs_stand_beside_the_shipped_ones(tracker: Tracker, this_code: Path) -> None:
    exported = ExportedRuns(this_code)
    empty = paper_table("rs_transclip/1")
    ids = [result.run_id for cell in look_up(empty, tracker).cells.values() for result in cell.shipped][:4]
    exported.runs = [run for run in exported.runs if run.run_id in ids]
    import_runs(exported, tracker)
    assert len(read_runs(tracker, "evaluate/")) == len(ids)
    both = [cell for cell in look_up(empty, tracker).cells.values() if cell.results]
    assert len(both) == len(ids)
    assert all(cell.shipped and cell.value == pytest.approx(cell.shipped[0].value) for cell in both)


@pytest.fixture
def other_code(shipped: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Every fingerprint of code is another one, as after an edit or in another version of Python."""
    for module in ("lineage", "clustering.fitting", "fair.stage"):
        monkeypatch.setattr(f"runs.stages.{module}.code_fingerprint", lambda *_, **__: "another")
    monkeypatch.setattr("runs.stages.small_cases.outcomes._known", {})
    return shipped


@pytest.fixture
def edited(tmp_path: Path, other_code: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Change], None]:
    """Changes the tags of all shipped runs."""

    def edit(change: Change) -> None:
        header, *lines = gzip.decompress(other_code.read_bytes()).splitlines()
        entries = [json.loads(line) for line in lines]
        changed = [json.dumps(entry | {"tags": change(entry["tags"])}).encode() for entry in entries]
        path = tmp_path / "changed.jsonl"
        path.write_bytes(b"\n".join([header, *changed]))
        monkeypatch.setattr("runs.tables.shipped.PLACE", path)

    return edit


def stale_rows(table: Table) -> set[str]:
    return {row.name for (row, _), cell in table.cells.items() if cell.is_stale}


@pytest.mark.usefixtures("other_code")
@pytest.mark.parametrize("name", ["rs_transclip/1", "entropy/I"])
def test_runs_of_other_code_with_the_same_outcomes_count(tracker: Tracker, name: str) -> None:
    table = look_up(paper_table(name), tracker)
    assert not stale_rows(table)
    assert all(cell.verdict and cell.verdict.status != "not run" for cell in table.cells.values() if cell.shipped)
    assert any(cell.shipped for cell in table.cells.values())
    assert not any(note.startswith("stale") for note in table.notes)


@pytest.mark.slow
@pytest.mark.usefixtures("other_code")
def test_all_outcomes_of_the_shipped_record_are_repeated(tracker: Tracker) -> None:
    for name in ("thesis/3.2", "thesis/2.2", "thesis/2.3", "entropy/III"):
        table = look_up(paper_table(name), tracker)
        assert any(cell.shipped for cell in table.cells.values())
        assert not stale_rows(table), table.notes


@pytest.mark.usefixtures("other_code")
def test_a_run_whose_outcome_has_changed_is_stale(tracker: Tracker, monkeypatch: pytest.MonkeyPatch) -> None:
    predict = ZeroShot.predict

    def softer(self: ZeroShot, episodes: Episodes) -> Predictions:
        found = predict(self, episodes)
        return found._replace(probabilities=0.9 * found.probabilities + 0.1 / episodes.way)

    monkeypatch.setattr(ZeroShot, "predict", softer)
    before = paper_table("rs_transclip/1")
    table = look_up(before, tracker)
    assert stale_rows(table) == {row.name for row in before.rows if "TransCLIP" not in row.name}
    for cell in table.cells.values():
        assert cell.verdict is not None
        assert cell.verdict.status == ("not run" if cell.is_stale else "reproduced")
    (note,) = (note for note in table.notes if note.startswith("stale"))
    assert "zero_shot" in note
    assert "its small case gives entropy" in note
    assert any(line.startswith("stale:") for line in legend(table))
    assert all("stale" in FILES[ending](table) for ending in ("md", "html", "tex", "csv"))
    assert {bool(record["stale"]) for record in records.records(table)} == {True, False}


@pytest.mark.usefixtures("other_code")
def test_a_clustering_whose_outcome_has_changed_is_stale(tracker: Tracker, monkeypatch: pytest.MonkeyPatch) -> None:
    fit = FairAssignment.fit

    def worse(self: FairAssignment, *arguments: object, **options: object) -> FairAssignment:
        fit(self, *arguments, **options)
        self.objective_ *= 1.01 if self.solver == "newton" else 1.0
        return self

    monkeypatch.setattr(FairAssignment, "fit", worse)
    table = look_up(paper_table("entropy/I"), tracker)
    stale = [cell for cell in table.cells.values() if cell.is_stale]
    assert {cell.clustering.method.name for cell in stale if cell.clustering} == {"pseudo_labels_newton"}
    assert all(cell.verdict and cell.verdict.status == "not run" for cell in stale)


def test_a_method_that_fails_makes_its_runs_stale(
    tracker: Tracker, other_code: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("no")

    monkeypatch.setattr(ZeroShot, "predict", fail)
    table = look_up(paper_table("rs_transclip/1"), tracker)
    assert "its small case fails" in next(note for note in table.notes if note.startswith("stale"))


def test_runs_without_an_outcome_are_stale(tracker: Tracker, edited: Callable[[Change], None]) -> None:
    edited(lambda tags: {name: text for name, text in tags.items() if name != SMALL_CASE})
    table = look_up(paper_table("rs_transclip/1"), tracker)
    assert table.statuses == {"not run": 12}
    assert all(cell.is_stale for cell in table.cells.values())
    assert any("no small case" in note for note in table.notes)
    counts = Counts.of("", [table])
    assert (counts.printed, counts.shipped, counts.found, counts.reproduced) == (12, 12, 0, 0)


def test_runs_of_other_settings_are_stale(tracker: Tracker, edited: Callable[[Change], None]) -> None:
    def other(tags: dict[str, str]) -> dict[str, str]:
        if SMALL_CASE not in tags:  # such as a training
            return tags
        return tags | {SMALL_CASE: json.dumps(json.loads(tags[SMALL_CASE]) | {"settings": "0" * 16})}

    edited(other)
    table = look_up(paper_table("rs_transclip/1"), tracker)
    assert all(cell.is_stale for cell in table.cells.values())
    assert any("a setting outside its config" in note for note in table.notes)


def test_own_runs_of_other_code_are_left_out(tracker: Tracker, other_code: Path) -> None:
    exported = ExportedRuns(other_code)
    exported.runs = [run for run in exported.runs if run.tags.get("strategy") == "zero_shot"][-4:]  # the oldest
    import_runs(exported, tracker)
    table = look_up(paper_table("rs_transclip/2"), tracker)
    assert not any(cell.results for cell in table.cells.values())
    assert any("the code has changed since" in note and not note.startswith("stale") for note in table.notes)


@pytest.mark.usefixtures("this_code")
def test_no_small_case_is_computed_for_runs_of_this_code(tracker: Tracker, monkeypatch: pytest.MonkeyPatch) -> None:
    known: dict[str, object] = {}
    monkeypatch.setattr("runs.stages.small_cases.outcomes._known", known)
    assert look_up(paper_table("rs_transclip/1"), tracker).statuses == {"reproduced": 12}
    assert not known


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
    import_runs(exported, tracker)
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
    import_runs(exported, tracker)
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
