"""Tables from the record: which run fills which cell, seeds, what the verb prints and runs, files of features."""

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from runs.cli import main
from runs.config.configs import EvaluateConfig, parse
from runs.stages.given_features import given_bank
from runs.stages.pipeline import evaluation
from runs.tables.evidence import Record
from runs.tables.formats import FILES
from runs.tables.grid import table_of
from runs.tables.judging import judge, judged
from runs.tables.keys import settings_of
from runs.tables.paper import paper_table, recipe_of
from runs.tables.published import published_table
from runs.tables.shipped import shipped_results
from runs.tables.table import Cell, SeedResult, Tolerance
from tests.runs.typed import as_experiment


def read_table(name, configs, tracker):
    table = table_of(name, configs)
    return Record.of(table, tracker).filled(table)


def missing(table):
    return [(cell.config.strategy.name, cell.config.sampler.options["shot"]) for cell in table.missing]


def test_each_cell_holds_its_run(recorded, tracker, grid):
    table = read_table("tiny", grid(), tracker)
    headings = [(row, shot) for row in ("simpleshot", "laplacianshot") for shot in ("1-shot", "3-shot")]
    assert [(cell.row_name, cell.column_name) for cell in table.ordered] == headings
    assert table.missing == []
    for place, result in recorded.items():
        cell = table.at(*place)
        assert cell.value == pytest.approx(result.accuracy)
        assert cell.half_width == pytest.approx(result.ci95)
        assert [r.run_id for r in cell.results] == [result.run_id]


@pytest.mark.parametrize("change", ["weight=0.2", "tasks=39", "query=4", "epochs=2", "split=validation", "noise=31.0"])
def test_a_run_that_differs_in_any_key_fills_no_cell(recorded, tracker, grid, change):
    table = read_table("tiny", grid(change), tracker)
    touched = [cell for cell in table.cells if change != "weight=0.2" or cell.row == "laplacianshot"]
    assert all(not cell.results for cell in touched)


def test_the_newest_run_wins_and_the_other_is_named(recorded, trained, tracker, grid):
    again = evaluation(grid(), trained, tracker, force=True)
    table = read_table("tiny", grid(), tracker)
    assert {cell.results[0].run_id for cell in table.cells} == {r.run_id for r in again}
    old = recorded["simpleshot", "1-shot"].run_id
    assert any(old in note for note in table.notes)


def test_deleted_and_failed_runs_fill_nothing(recorded, tracker, grid):
    tracker.client.delete_run(recorded["simpleshot", "1-shot"].run_id)
    tracker.client.set_terminated(recorded["laplacianshot", "3-shot"].run_id, "FAILED")
    assert missing(read_table("tiny", grid(), tracker)) == [("simpleshot", 1), ("laplacianshot", 3)]


def test_a_run_of_other_code_is_left_aside_by_name(recorded, tracker, grid):
    stale = recorded["simpleshot", "1-shot"].run_id
    tracker.client.set_tag(stale, "revisions", "strategy 2")
    table = read_table("tiny", grid(), tracker)
    assert missing(table) == [("simpleshot", 1)]
    assert any(stale in note and "code has changed" in note for note in table.notes)


def test_all_cells_of_a_benchmark_stand_on_the_same_images(recorded, tracker, grid):
    """Those of the newest run: what was on others is left out in every cell, not in its own alone."""
    newest = max(recorded, key=lambda place: tracker.client.get_run(recorded[place].run_id).info.start_time)
    tracker.client.set_tag(recorded[newest].run_id, "data", "fedcba9876543210")
    table = read_table("tiny", grid(), tracker)
    for place, result in recorded.items():
        assert bool(table.at(*place).results) == (place == newest)
        if place != newest:
            assert any(result.run_id in note and "other images" in note for note in table.notes)


@pytest.mark.parametrize(
    ("strange", "numbers", "whole"),
    [
        ({"seed": None}, {}, False),
        ({"seed": "abc"}, {}, False),
        ({}, {"accuracy": math.nan}, False),
        ({}, {"accuracy": math.inf}, False),
        ({}, {"tasks": math.nan, "accuracy_ci95": math.inf}, True),
    ],
)
@pytest.mark.parametrize("ours", [True, False])
def test_runs_that_others_wrote_are_no_danger(recorded, tracker, grid, strange, numbers, whole, ours):
    run = tracker.client.get_run(recorded["simpleshot", "1-shot"].run_id)
    tags = {name: value for name, value in {**run.data.tags, **strange}.items() if value is not None}
    tags = {name: value for name, value in tags.items() if ours or name != "data"}
    other = tracker.client.create_run(run.info.experiment_id, tags=tags).info.run_id
    for name, value in run.data.params.items():
        tracker.client.log_param(other, name, value)
    for name, value in {**run.data.metrics, **numbers}.items():
        tracker.client.log_metric(other, name, value)
    tracker.client.set_terminated(other)
    table = read_table("tiny", grid(), tracker)
    cell = table.at("simpleshot", "1-shot")
    assert [result.run_id for result in cell.results] == [other if whole and ours else run.info.run_id]
    assert cell.value == pytest.approx(recorded["simpleshot", "1-shot"].accuracy)
    assert any(other in note for note in table.notes) or (whole and ours)


def cell(*accuracies):
    config = parse(EvaluateConfig, ["strategy=simpleshot"])[0]
    results = tuple(SeedResult(i, a, 0.01, 100, f"run{i}") for i, a in enumerate(accuracies))
    return Cell(row="a", column="b", config=config, results=results)


def test_over_seeds_the_interval_is_students():
    several = cell(0.5, 0.6, 0.7)
    assert several.value == pytest.approx(0.6)
    assert several.half_width == pytest.approx(
        4.302653 * 0.1 / math.sqrt(3), rel=1e-5
    )  # t(0.975, 2 degrees of freedom)
    assert cell(0.5).half_width == 0.01
    assert math.isnan(cell().value)


@pytest.fixture
def experiment(tmp_path, tiny_arguments):
    """The grid as an experiment file."""
    return as_experiment(tmp_path / "tiny.yaml", *tiny_arguments, "strategy=simpleshot,laplacianshot", "shot=1,3")


def test_the_table_verb_prints_and_saves(recorded, trained, experiment, capsys):
    assert main(["table", str(experiment), f"results={trained.root}"]) == 0
    out, err = capsys.readouterr()
    assert "laplacianshot" in out
    assert "3-shot" in out
    assert "saved" in err
    saved = (trained.tables / "tiny.md").read_text()
    assert f"{100 * recorded['simpleshot', '1-shot'].accuracy:.2f}" in saved
    assert {path.name for path in trained.tables.iterdir()} == {f"tiny.{ending}" for ending in FILES}


@pytest.mark.parametrize("damage", [b"", b"no numbers", None])
def test_of_a_damaged_run_the_mean_is_shown_alone(recorded, trained, experiment, capsys, damage):
    (path,) = trained.artifacts.glob(f"**/{recorded['laplacianshot', '1-shot'].run_id}/**/per_task.npz")
    if damage is None:
        path.unlink()
    else:
        path.write_bytes(damage)
    assert main(["table", str(experiment), f"results={trained.root}", "--json"]) == 0
    out, err = capsys.readouterr()
    assert "no longer whole" in err
    cells = [cell for cell in json.loads(out)["cells"] if cell["column"] == "1-shot"]
    assert len(cells) == 2  # strategies
    assert all(cell["reproduced"] is not None for cell in cells)
    assert not any(cell["best"] for cell in cells)


def test_what_is_missing_is_run(recorded, trained, tracker, experiment, capsys):
    tracker.client.delete_run(recorded["laplacianshot", "3-shot"].run_id)
    assert main(["table", str(experiment), f"results={trained.root}", "--run-missing", "-y"]) == 0
    out, err = capsys.readouterr()
    assert "not run" not in out
    assert "reused 4" in err, "it is in the cache, and recorded anew"
    assert "papers claim" not in out + (trained.tables / "tiny.md").read_text(), "it is an experiment of the user"


@pytest.mark.usefixtures("blank_pictures")
@pytest.mark.slow
def test_quickstart_ends_with_table_and_pictures(trained, tiny_arguments, capsys):
    assert main(["quickstart", *tiny_arguments, "strategy=simpleshot,laplacianshot", f"results={trained.root}"]) == 0
    out, err = capsys.readouterr()
    assert "laplacianshot" in out
    assert "transduce ui" in err
    names = {path.name for path in trained.tables.iterdir()}
    assert names >= {"quickstart.md", "quickstart.csv"}
    drawn = {path.name for path in trained.figures.iterdir()}
    assert drawn == {f"quickstart-{name}.{kind}" for name in ("accuracy", "descent") for kind in ("pdf", "svg", "png")}


def test_only_the_seeds_that_are_asked_for_count(trained, tracker, experiment, capsys):
    def cells(*arguments):
        one = ["strategy=simpleshot", "shot=1", f"results={trained.root}"]
        assert main(["table", str(experiment), *one, "--json", *arguments]) == 0
        return json.loads(capsys.readouterr().out)["cells"]

    cells("seed=0,1", "--run-missing", "-y")
    assert {cell["seeds"] for cell in cells()} == {2}
    assert {cell["seeds"] for cell in cells("seed=1")} == {1}
    assert {cell["seeds"] for cell in cells("seed=2")} == {0}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["tasks"], "FILE"),
        (["tasks", "a", "b"], "FILE"),
        (["tasks", "."], "is not a file"),
        (["tasks", "mine.txt"], "only task lists are overwritten"),
        (["tasks", "no/such/folder/t.safetensors"], "no/such/folder"),
        (["tasks", "t.safetensors", "shot=1,5"], "one value"),
        (["table"], "table"),
        (["table", "no/such"], "no/such"),
        (["table", "quickstrat"], "quickstart"),
        (["table", "quickstart", "--limit-minutes=3"], "--run-missing"),
    ],
)
def test_mistakes(trained, tmp_path, tiny_arguments, arguments, words, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.txt").write_text("mine")
    common = [*tiny_arguments, f"results={trained.root}"] if arguments[0] == "tasks" else []
    assert main([*arguments, *common]) == 2
    assert words in capsys.readouterr().err


def test_the_plan_of_a_papers_table_says_which_folders_lack(tmp_path, capsys):
    given = [f"results={tmp_path}", "--dry-run"]
    assert main(["table", "thesis/4.1", *given]) == 2
    assert "mini.root=FOLDER tiered.root=FOLDER --dry-run" in capsys.readouterr().err
    assert main(["table", "thesis/3.2", *given]) == 0  # some of its data are drawn
    out, err = capsys.readouterr()
    assert "data are not given; add them: transduce table thesis/3.2" in err
    assert "adult" in err
    assert "synthetic" in out


ENCODERS = ("clip_rn50", "clip_vitb32", "clip_vitl14", "georsclip_vitb32", "remoteclip_vitb32", "skyclip50_vitl14")
PROMPTS = 106
CLASSES = 19


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Small files with the names of those that the tables use: 19 classes of three pictures, 106 prompts."""
    folder = tmp_path_factory.mktemp("vlm")
    for i, encoder in enumerate(ENCODERS):
        random = np.random.default_rng(i)
        prompts = random.normal(size=(PROMPTS, CLASSES, 12)).astype("f2")
        labels = np.repeat(np.arange(CLASSES), 3)
        images = (prompts.mean(0)[labels] * 8 + random.normal(size=(len(labels), 12))).astype("f2")
        named = {"labels": labels, "class_names": [f"class {k}" for k in range(CLASSES)]}
        path = folder / f"whurs19_{encoder}.npz"
        np.savez(path, images=images, text=prompts.mean(0), text_by_prompt=prompts, **named)
    return folder


def whole(*settings):
    return ["features=whurs19_clip_vitb32.npz", "sampler=batches", "size=1005", "tasks=1", "device=cpu", *settings]


def test_a_table_is_filled_and_found_again_without_its_files(folder, store, tracker, capsys):
    assert main(["table", "rs_transclip/1", f"results={store.root}"]) == 0
    shown = capsys.readouterr()
    assert "needs features_root=FOLDER" in shown.out
    assert f"transduce table rs_transclip/1 results={store.root} --run-missing features_root=FOLDER" in shown.err
    arguments = ["table", "rs_transclip/1", f"results={store.root}", "device=cpu"]
    assert main([*arguments, f"features_root={folder}", "--run-missing", "-y", "--json"]) == 0
    cells = json.loads(capsys.readouterr().out)["cells"]
    assert len(cells) == 12
    assert {cell["verdict"] for cell in cells} <= {"above", "below", "reproduced"}
    assert {cell["tasks"] for cell in cells} == {1}
    assert len({tuple(cell["runs"]) for cell in cells}) == 12
    assert main([*arguments, "--json"]) == 0  # the folder is not known, as in the report
    again = json.loads(capsys.readouterr().out)["cells"]
    assert [cell["runs"] for cell in again] == [cell["runs"] for cell in cells]
    assert [cell["verdict"] for cell in again] == [cell["verdict"] for cell in cells]


def test_shipped_results_of_other_files_do_not_count(folder, monkeypatch):
    monkeypatch.setattr("runs.tables.shipped.PLACE", Path(__file__).parents[2] / "reproduction")
    for settings, shipped in (([], True), ([f"features_root={folder}"], False)):
        table, _ = shipped_results().filled(paper_table("rs_transclip/1", settings))
        assert {bool(cell.shipped) for cell in table.cells} == {shipped}


def test_data_that_is_not_at_hand_stops_nothing_unless_all_of_it_lacks(store, tracker, tmp_path, capsys):
    np.savez(tmp_path / "mnist_code.npz", x=np.random.default_rng(0).normal(size=(70000, 10)), y=np.arange(70000) % 10)
    words = ["table", "slk/1", f"results={store.root}", "--run-missing", "-y"]
    assert main(words) == 2
    assert "failed: kmeans ytf s0: dataset ytf: no folder given" in capsys.readouterr().err
    assert main([*words, f"mnist_code.root={tmp_path}"]) == 0
    shown = capsys.readouterr()
    assert "needs mnist.root=FOLDER" in shown.out
    assert "failed" not in shown.err


def test_an_experiment_says_which_folder_it_needs(store, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["table", "vlm/few_shot", f"results={store.root}"]) == 0
    command = f"transduce table vlm/few_shot results={store.root} --run-missing features_root=FOLDER"
    assert f"63 missing cells can be run: {command}" in capsys.readouterr().err
    assert main(["table", "vlm/few_shto", f"results={store.root}"]) == 2
    assert "did you mean 'vlm/few_shot'" in capsys.readouterr().err
    assert main(["evaluate", *whole("strategy=zero_shot"), f"results={store.root}"]) == 2
    assert "or its folder by features_root=FOLDER" in capsys.readouterr().err


def test_single_prompts_are_other_runs_of_one_file(folder, store, tracker):
    table = paper_table("rs_transclip/2", [f"features_root={folder}", f"results={store.root}", "device=cpu"])
    assert [config.prompt for config in table.configs[::2]] == list(range(PROMPTS))
    assert len({json.dumps(settings_of(config)) for config in table.configs}) == 2 * PROMPTS
    evaluation(table.configs[:4], store, tracker)
    found = judged(Record.of(table, tracker).filled(table))
    assert [len(cell.results) for cell in found.cells[:6]] == [1, 1, 1, 1, 0, 0]
    assert {cell.verdict for cell in found.cells[4:]} == {"not run"}, "no near run of a prompt"
    assert not any(cell.differs for cell in found.cells)
    scores = [cell.results[0].value for cell in found.cells[:4]]
    bank = given_bank(table.configs[2].feature_files, "novel", 1)
    assert scores[2] == pytest.approx(float((bank.features @ bank.text.T).argmax(1).eq(bank.labels).float().mean()))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (whole("strategy=zero_shot", "prompt=106"), "prompt=106, but the file has prompts 0 to 105"),
        (whole("strategy=zero_shot", "prompt=-1"), "prompt must be"),
        (["prompt=0"], "prompt= applies to given features; add features=FILE"),
        (["features_root=x"], "features_root= applies to given features; add features=FILE"),
    ],
)
def test_mistakes_about_prompts(folder, store, capsys, monkeypatch, settings, words):
    monkeypatch.chdir(folder)
    assert main(["evaluate", *settings, f"results={store.root}"]) == 2
    said = capsys.readouterr().err
    assert words in said
    assert "Traceback" not in said


def test_the_same_queries_leave_no_room_for_an_interval():
    printed = published_table("rs_transclip/1")
    recipe = recipe_of(printed.name)
    (config,) = parse(EvaluateConfig, whole("strategy=zero_shot"))
    target = printed.numbers[1]
    for pictures, status in ((0, "reproduced"), (1, "above"), (-1, "below")):
        results = (SeedResult(0, target.published / 100 + pictures / 1005, 0.02, 1),)
        alone = replace(target, config=config, results=results, tolerance=recipe.tolerated(target))
        assert judge(alone, printed)["verdict"] == status
        usual = judge(replace(alone, tolerance=Tolerance()), printed)
        assert usual["verdict"] == "reproduced", "within the interval over queries"
