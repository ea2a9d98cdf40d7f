"""Tuning in processes of their own: killed between two steps, and twice at once."""

import json
import signal

import pytest

from runs.config.configs import TuneConfig, parse
from runs.stages.pipeline import tune
from runs.track import PARENT
from tests.runs.children import interrupted, together
from tests.runs.records import runs_of

# A real `transduce tune` that stands still before its second step, and says so.
CHILD = """
import sys, time
import runs.stages.tuning

real, calls = runs.stages.tuning.evaluation, []

def evaluation(*given, **more):
    calls.append(given)
    if len(calls) == 2:
        print("reached", flush=True)
        time.sleep(120)
    return real(*given, **more)

runs.stages.tuning.evaluation = evaluation
from runs.cli import main

sys.exit(main(["tune", *sys.argv[1:]]))
"""


pytestmark = pytest.mark.slow


@pytest.fixture
def typed(tmp_path, tiny_arguments):
    protocol = tmp_path / "short.yaml"
    protocol.write_text(
        "tasks: 30\nlaplacianshot:\n"
        "- {split: base, grid: {neighbours: [2, 5]}}\n- {split: validation, grid: {weight: [0.1, 1.0]}}\n"
    )
    keys = [item for item in tiny_arguments if not item.startswith("tasks=")]
    return [*keys, "strategy=laplacianshot", f"tuning={protocol}"]


def parents(tracker):
    return [run for run in runs_of(tracker, "tune/Tiny") if PARENT not in run.data.tags]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_what_was_killed_between_two_steps_goes_on(trained, tracker, typed, notes, child_environment, number):
    _, messages = interrupted(["-c", CHILD, *typed, f"results={trained.root}"], child_environment, number)
    (dead,) = parents(tracker)
    assert dead.info.status == ("RUNNING" if number == signal.SIGKILL else "KILLED")
    assert number == signal.SIGKILL or "same command" in messages
    (config,) = parse(TuneConfig, typed)
    found = tune(config, trained, tracker, progress=notes)
    assert found.tuned.run_id == dead.info.run_id
    assert "going on with the interrupted tuning" in notes
    assert notes.bars.count("evaluating") == 1, "the first step is taken from the record"
    assert [run.info.status for run in parents(tracker)] == ["FINISHED"]


def test_of_two_at_once_one_tunes_and_the_other_takes_it(trained, tracker, typed, child_environment):
    command = ["-m", "runs.cli", "tune", *typed, f"results={trained.root}", "--json"]
    said = together([command, command], child_environment, seconds=240)
    first, second = (json.loads(out)[0] for out, _ in said)
    assert first["run"] == second["run"]
    assert [run.info.status for run in parents(tracker)] == ["FINISHED"]
