"""Tab completion: what a shell is offered, and a shell that asks for it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from runs.cli.completion import completions

from fsl.strategies import STRATEGIES
from runs.cli import VERBS, main


def test_each_part_of_a_command_is_completed() -> None:
    assert [word.strip() for word in completions("transduce ")] == list(VERBS)
    assert completions("transduce eval") == ["evaluate "]
    assert "strategy=" in completions("transduce evaluate ")
    assert set(STRATEGIES.names()) <= set(completions("transduce evaluate strategy="))
    assert completions("transduce evaluate strategy=simpleshot,soft_s") == ["simpleshot,soft_slk"]
    assert completions("transduce evaluate strategy=laplacianshot neigh") == ["neighbours="]
    assert "--dry-run " in completions("transduce evaluate --d")
    assert "adult" in completions("transduce fair dataset=")
    assert "adult" not in completions("transduce cluster dataset=")


@pytest.mark.parametrize(
    "line", ["transduce nothing ", "transduce evaluate nothing=", "transduce ui x", "transduce evaluate strategy=x w"]
)
def test_where_nothing_fits_nothing_is_offered(line: str) -> None:
    assert [word for word in completions(line) if not word.endswith("=")] == []


def test_the_shell_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion"]) == 2
    assert "bash|zsh" in capsys.readouterr().err


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_asks_and_is_answered(tmp_path: Path) -> None:
    command = tmp_path / "transduce"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m runs.cli "$@"\n')
    command.chmod(0o755)
    script = (
        'eval "$(transduce completion bash)"; complete -p transduce; COMP_LINE="transduce clu" transduce completion x'
    )
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    found = subprocess.run(["bash", "-c", script], capture_output=True, text=True, env=environment, check=True)
    assert found.stdout.splitlines()[-1] == "cluster "
    assert "transduce completion" in found.stdout
