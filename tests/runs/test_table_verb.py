"""`transduce table` and `quickstart`: what they print, save and run, and how they meet mistakes."""

import json

import pytest

from runs.cli import main
from runs.tables.formats import FILES


@pytest.fixture
def experiment(tmp_path, tiny_arguments):
    """The grid as an experiment file."""
    lines = [item.replace("=", ": ", 1) for item in [*tiny_arguments, "strategy=simpleshot,laplacianshot", "shot=1,3"]]
    path = tmp_path / "tiny.yaml"
    path.write_text("\n".join(lines) + "\n")
    return path


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
