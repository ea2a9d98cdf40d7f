"""benchmarks/gpu_papers.sh: mistakes, exit codes and steps; the comparison of benchmarks/parity.py."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
STEPS = [
    *("mini_resnet18", "thesis-4.1-resnet18_84", "thesis-4.4-resnet18_84", "slk_fewshot-II-resnet18_84"),
    *("parity", "speed", "training_overhead", "thesis-4.5-resnet18_84"),
    *("mini_wrn", "thesis-4.1-wrn28_10", "slk_fewshot-II-wrn28_10", "thesis-4.5-wrn28_10"),
]
STAND_IN = """#!/bin/sh
echo "$*" >>"$CALLS"
case $* in *"$ENDS"*) exit "$WITH" ;; esac
"""


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A folder in which the pictures of mini-ImageNet seem to be; a plan does not open them."""
    folder = tmp_path / "data" / "mini_imagenet"
    folder.mkdir(parents=True)
    for name in ("base-0", "val", "novel"):
        (folder / f"{name}.npz").write_bytes(name.encode())
    return folder.parent


def call(tmp_path: Path, *arguments: object, **environment: str) -> tuple[int, str, str]:
    """Exit code, output and messages."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    known = os.environ | {"PATH": path, "PYTHONPATH": str(ROOT), "TRANSDUCE_RESULTS": f"{tmp_path}/results/"}
    command = [ROOT / "benchmarks" / "gpu_papers.sh", *map(str, arguments)]
    done = subprocess.run(command, env=known | environment, cwd=tmp_path, capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


def pretend(tmp_path: Path, data: Path, ends: str = "nothing", code: int = 0) -> tuple[int, str, list[str]]:
    """A call with a stand-in for Python that ends with a code where its arguments have a text.

    Returns:
        Exit code, output, and the arguments of each command.
    """
    stand_in, calls = tmp_path / "bin" / "python", tmp_path / "calls"
    stand_in.parent.mkdir(exist_ok=True)
    stand_in.write_text(STAND_IN)
    stand_in.chmod(0o755)
    calls.write_text("")
    path = f"{stand_in.parent}{os.pathsep}{os.environ['PATH']}"
    exit_code, out, _ = call(tmp_path, data, "--small", PATH=path, CALLS=str(calls), ENDS=ends, WITH=str(code))
    return exit_code, out, calls.read_text().splitlines()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "folder of the data"),
        (("nowhere",), "nowhere has no folder mini_imagenet"),
        (("data", "0"), "minutes must be a whole number from 1 to 9999, not 0"),
        (("data", "1.5"), "not 1.5"),
        (("data", "9", "more"), "more is one argument too many"),
        (("data", "--smal"), "unknown option --smal"),
    ],
)
def test_mistakes(tmp_path: Path, data: Path, arguments: tuple[str, ...], words: str) -> None:
    code, out, said = call(tmp_path, *arguments)
    assert (code, out) == (2, "")
    assert words in said
    assert not (tmp_path / "results").exists()


def test_an_interrupted_step_is_the_first_of_the_next_call_and_a_finished_one_is_not_taken_again(
    tmp_path: Path, data: Path
) -> None:
    code, out, calls = pretend(tmp_path, data, "parity.py", 130)
    assert code == 75
    assert f"done: {' '.join(STEPS[:4])}\nleft: {' '.join(STEPS[4:])}; call again\n" in out
    assert "export.py" in calls[-1]
    code, out, calls = pretend(tmp_path, data)
    assert code == 0
    assert "parity.py" in calls[1]
    assert len(calls) == 1 + 8 + 1  # the pictures before, the export after
    code, out, calls = pretend(tmp_path, data)
    assert code == 0
    assert f"done: {' '.join(STEPS)}\n" in out
    assert ["export.py" in each for each in calls] == [False, True]


@pytest.mark.parametrize("ends", [1, 137])
def test_a_failed_step_stops_no_other_and_is_told_at_the_end(tmp_path: Path, data: Path, ends: int) -> None:
    """A step that is killed within its time, such as for lack of memory, has failed: it would be killed again."""
    for _ in range(2):
        code, out, _ = pretend(tmp_path, data, "parity.py", ends)
        assert code == 1
        assert f"done: {' '.join(step for step in STEPS if step != 'parity')}\nfailed: parity;" in out
    (tmp_path / "results-small" / "gpu_papers" / "parity.failed").unlink()
    assert pretend(tmp_path, data)[0] == 0
