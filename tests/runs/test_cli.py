"""Verbs, exit codes, and what goes to which stream. The stages themselves are stood in for."""

import errno
import json
import os
import re
import subprocess
import sys

import pytest
from typer.main import get_command

from clustering.foundation.errors import InputError
from fsl.backbones import OWN
from runs import cli
from runs.cli import main
from runs.stages import pipeline as stages


@pytest.fixture(autouse=True)
def results(tmp_path, monkeypatch):
    """A store of its own, which no test here should bring into being."""
    folder = tmp_path / "results"
    monkeypatch.setenv("TRANSDUCE_RESULTS", str(folder))
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    return folder


def failing(monkeypatch, error):
    def evaluation(*arguments, **options):
        raise error

    monkeypatch.setattr(stages, "evaluation", evaluation)


def test_every_verb_has_its_line_its_module_and_its_help(capsys):
    assert main(["--help"]) == 0
    overview = capsys.readouterr().out
    assert main([]) == 0
    assert capsys.readouterr().out == overview
    verbs = get_command(cli.app).commands
    for verb in verbs:
        assert f"  {verb}" in overview
        assert main([verb, "--help"]) == 0
        shown = capsys.readouterr()
        assert shown.out.startswith(f"Usage: transduce {verb}")
        assert not shown.err


def test_config_prints_what_can_be_run(capsys, tmp_path):
    assert main(["config", "evaluate", "strategy=laplacianshot", "weight=2", "shot=5"]) == 0
    printed = capsys.readouterr().out
    (tmp_path / "again.yaml").write_text(printed)
    assert main(["config", "evaluate", f"experiment={tmp_path}/again.yaml"]) == 0
    assert capsys.readouterr().out == printed


def test_a_dry_run_shows_config_and_plan_and_makes_nothing(results, capsys):
    assert main(["evaluate", "--dry-run", "shot=1,5", "strategy=simpleshot"]) == 0
    out = capsys.readouterr().out
    assert "strategy:\n  name: simpleshot" in out
    assert "each:\n- " in out
    assert "checkpoint" in out
    assert "2 new runs" in out or "3 new runs" in out
    assert main(["train", "--dry-run", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["configs"][0]["benchmark"] == "glyphs"
    assert not results.exists()


@pytest.mark.parametrize("verb", ["evaluate", "compare", "tune", "tasks"])
def test_tasks_that_the_classes_cannot_give_leave_nothing(verb, results, tiny_arguments, tmp_path, capsys):
    """The images that the verb would make are read, but not written."""
    strategy = {"evaluate": "simpleshot", "compare": "simpleshot,nearest"}.get(verb, "laplacianshot")
    place = [str(tmp_path / "tasks.safetensors")] if verb == "tasks" else []
    given = [item for item in tiny_arguments if verb != "tune" or not item.startswith("tasks=")]
    assert main([verb, *place, *given, f"strategy={strategy}", "way=9"]) == 2
    assert "has only" in capsys.readouterr().err
    assert not results.exists()
    assert not (tmp_path / "tasks.safetensors").exists()


DISK = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/store/file")


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (InputError("weight: too much; take less"), 2, ["transduce: weight: too much; take less"]),
        (ZeroDivisionError("by zero\nand more"), 1, ["transduce: ZeroDivisionError: by zero", "--debug"]),
        (KeyboardInterrupt(), 130, ["", "kept", "same command .* last finished epoch"]),
        (DISK, 2, ["disk is full at /store/file.* same command"]),
        (RuntimeError("(sqlite3.OperationalError) database or disk is full"), 2, ["disk is full.* same command"]),
        (RuntimeError("I/O error: Disk quota exceeded (os error 122)"), 2, ["disk is full.* same command"]),
    ],
)
def test_errors_have_their_code_and_message(monkeypatch, error, code, said, capsys):
    failing(monkeypatch, error)
    assert main(["evaluate"]) == code
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == len(said)
    assert all(re.search(words, line) for words, line in zip(said, lines, strict=True))
    if code < 130:
        assert main(["evaluate", "--debug"]) == code
        assert "Traceback" in capsys.readouterr().err


def test_a_reader_that_went_away_is_no_error():
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [sys.executable, "-m", "runs.cli", "evaluate", "--help"],
        stdout=write,
        stderr=subprocess.PIPE,
        timeout=60,
    )
    os.close(write)
    assert done.stderr == b""


def test_list_tells_what_each_is(monkeypatch, capsys):
    monkeypatch.setitem(OWN, "tiny_conv", "fsl.backbones.conv4")  # it has no file of its own
    assert main(["list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert main(["list"]) == 0
    shown = capsys.readouterr().out
    for rows in listed.values():
        names = [row["name"] for row in rows]
        assert len(set(names)) == len(names) > 0
        assert all(name in shown for name in names)
        assert all(row["name"] == "tiny_conv" or row["about"] for row in rows)
    rows = {row["name"]: row for kind in ("strategies", "backbones") for row in listed[kind]}
    assert rows["laplacianshot"]["transductive"] is True
    assert rows["simpleshot"]["transductive"] is False
    assert "tiny_conv" in rows
