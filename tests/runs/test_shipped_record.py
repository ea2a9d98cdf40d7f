"""The shipped results beside the runs of the user, in a table of a paper; and the program that writes them."""

import shutil
from pathlib import Path

import pytest

from clustering.deep.fair_assignment import FairAssignment
from clustering.foundation.errors import InputError
from fsl.strategies.zero_shot import ZeroShot
from runs.config.groups import option, outline
from runs.stages.fair.stage import fair_clustering
from runs.tables.evidence import look_up
from runs.tables.formats import FILES, records
from runs.tables.papers.paper import paper_table
from runs.tables.papers.published import published_names
from runs.tables.shipped import CLAIMS, RESULTS, shipped_results
from runs.track import Tracker
from tests.runs.records import copy_results, exporting

SHIPPED = Path(__file__).parents[2] / "reproduction"


@pytest.fixture
def shipped(monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("runs.tables.shipped.PLACE", SHIPPED)
    return SHIPPED


@pytest.fixture
def copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the shipped results."""
    folder = tmp_path / "shipped"
    folder.mkdir()
    for name in (RESULTS, CLAIMS):
        shutil.copy(SHIPPED / name, folder)
    monkeypatch.setattr("runs.tables.shipped.PLACE", folder)
    return folder


@pytest.mark.usefixtures("shipped")
def test_a_table_without_runs_shows_the_shipped_results(tracker: Tracker) -> None:
    table = look_up(paper_table("rs_transclip/1"), tracker)
    assert table.statuses == {"reproduced": 12}
    assert not any(cell.results for cell in table.cells)
    assert all(record["shipped"] > 0 and record["shipped_seeds"] for record in records(table))
    assert any(note.startswith("shipped: runs of commit ") for note in table.notes)
    assert all("shipped" in FILES[ending](table) for ending in ("md", "html", "csv"))


@pytest.mark.usefixtures("shipped")
def test_no_shipped_result_is_stale() -> None:
    """Every row is of the settings and revisions that its cell has today; otherwise make the results again."""
    ours = shipped_results()
    assert ours is not None
    stale = []
    for name in set(published_names()) & set(ours.names):
        filled, _ = ours.filled(paper_table(name))
        found = {cell.place for cell in filled.cells if cell.shipped}
        stale += [(name, *cell.place) for cell in ours.table(name, "").cells if cell.place not in found]
    assert stale == []
    assert (SHIPPED / RESULTS).stat().st_size < 300_000


@pytest.mark.usefixtures("shipped")
def test_other_settings_have_no_shipped_results(tracker: Tracker) -> None:
    table = look_up(paper_table("thesis/3.2", ["fairness_weight=1"]), tracker)
    weighted = [cell for cell in table.cells if cell.fair and hasattr(cell.fair.method.kind, "path")]
    assert weighted
    assert not any(cell.shipped for cell in weighted)
    assert {finding.status for finding in table.findings} <= {"not run"}


@pytest.mark.usefixtures("shipped")
@pytest.mark.parametrize(("raised", "place", "name"), [
    (ZeroShot, ("strategy", "zero_shot"), "rs_transclip/1"),
    (FairAssignment, ("method", option("method", "pseudo_labels_em").plugin), "entropy/I"),
])  # fmt: skip
def test_runs_of_an_earlier_revision_do_not_count(
    tracker: Tracker, monkeypatch: pytest.MonkeyPatch, raised: type, place: tuple[str, str], name: str
) -> None:
    before = look_up(paper_table(name), tracker)
    monkeypatch.setattr(outline(*place), "revision", 2, raising=False)
    table = look_up(paper_table(name), tracker)
    pairs = zip(before.cells, table.cells, strict=True)
    lost = [cell.place for known, cell in pairs if known.shipped and not cell.shipped]
    of_class = []
    for cell in before.cells:
        config = cell.few_shot or cell.clustering
        choice = getattr(config, "strategy", None) or getattr(config, "method", None)
        if cell.shipped and choice is not None and issubclass(choice.kind, raised):
            of_class.append(cell.place)
    assert lost == of_class
    assert lost


@pytest.mark.parametrize("name", [RESULTS, CLAIMS])
@pytest.mark.parametrize("change", [
    lambda lines: [],
    lambda lines: ["no,table"],
    lambda lines: [*lines[:-1], lines[-1].rpartition(",")[0]],
    lambda lines: [*lines, lines[-1].replace(",", ",x", 8)],
    None,
], ids=["empty", "other", "cut", "strange", "gone"])  # fmt: skip
def test_a_damaged_file_is_named(tracker: Tracker, copied: Path, name: str, change: object) -> None:
    path = copied / name
    lines = path.read_text(encoding="utf-8").splitlines()
    path.unlink()
    if callable(change):
        path.write_text("\n".join(change(lines)), encoding="utf-8")
    with pytest.raises(InputError, match=rf"{name}.* restore this file"):
        look_up(paper_table("rs_transclip/1"), tracker)


def test_exported_results_are_those_of_the_runs(tracker, results_of, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("runs.report.papers.published_names", lambda: ["thesis/3.2"])
    settings = ["n_init=1", "max_iter=10", "fairness_weight=0,60"]
    empty = paper_table("thesis/3.2", settings)
    configs = [cell.fair for cell in empty.cells if cell.row == "Synthetic-unequal"]
    root, (_, failed) = results_of("row", lambda *where: fair_clustering(configs, *where))
    assert not failed
    copy_results(root, tracker.store)
    own = look_up(empty, tracker)
    folder = tmp_path / "exported"
    folder.mkdir()
    module = exporting()
    runs = {row.run_id: row for row in module.read_runs(tracker, "")}
    count = module.write(folder, [own], runs)
    monkeypatch.setattr("runs.tables.shipped.PLACE", folder)
    again, findings = shipped_results().filled(empty)
    assert count == sum(len(cell.shipped) for cell in again.cells) > 0
    for cell, known in zip(own.cells, again.cells, strict=True):
        assert known.as_shipped.value == pytest.approx(cell.value, nan_ok=True)
        assert known.as_shipped.as_printed == pytest.approx(cell.as_printed, nan_ok=True)
    assert [one for one in own.findings if one.status != "not run"] == findings
    said = [(one.claim, one.setting) for one in look_up(empty, tracker).findings]
    assert len(said) == len(set(said)), "a claim that the user's runs decide is not said again of the shipped ones"
    with (folder / RESULTS).open(encoding="utf-8") as file:
        assert str(tmp_path) not in file.read()
