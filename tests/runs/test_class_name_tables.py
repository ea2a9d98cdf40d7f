"""Tables and a figure of strategies with class names, from files of features: filled, judged, found again without the
files."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from runs.cli import main
from runs.config.configs import EvaluateConfig, parse
from runs.stages.given_features import given_bank
from runs.stages.pipeline import evaluation
from runs.tables.cell import SeedResult, Tolerance
from runs.tables.evidence import Record
from runs.tables.judging import judge, judged
from runs.tables.keys import settings_of
from runs.tables.papers.paper import paper_table
from runs.tables.papers.published import published_table
from runs.tables.papers.recipe import recipe_of
from runs.tables.shipped import shipped_results

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
def test_mistakes(folder, store, capsys, monkeypatch, settings, words):
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
