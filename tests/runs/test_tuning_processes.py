"""Tuning in processes of their own: killed between two steps, and twice at once."""

import json
import signal
import subprocess
import sys

import pytest

from runs.config import TuneConfig, parse
from runs.stages import tune
from runs.tracking import PARENT

# A real `transduce tune` that stands still before its second step, and says so.
CHILD = """
import sys, time
import runs.tuning

real, calls = runs.tuning.evaluation, []

def evaluation(*given, **more):
    calls.append(given)
    if len(calls) == 2:
        print("reached", flush=True)
        time.sleep(120)
    return real(*given, **more)

runs.tuning.evaluation = evaluation
from runs.cli import main

sys.exit(main(["tune", *sys.argv[1:]]))
"""


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
    found = tracker.client.get_experiment_by_name("tune/Tiny")
    return [run for run in tracker.client.search_runs([found.experiment_id]) if PARENT not in run.data.tags]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_what_was_killed_between_two_steps_goes_on(trained, tracker, typed, notes, child_environment, number):
    command = [sys.executable, "-W", "ignore", "-c", CHILD, *typed, f"results={trained.root}"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    child = subprocess.Popen(command, env=child_environment, text=True, **pipes)
    try:
        said = child.stdout.readline()
        assert said == "reached\n", child.communicate(timeout=60)
        child.send_signal(number)
        _, messages = child.communicate(timeout=60)
    finally:
        child.kill()
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
    command = [sys.executable, "-W", "ignore", "-m", "runs.cli", "tune", *typed, f"results={trained.root}", "--json"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    children = [subprocess.Popen(command, env=child_environment, text=True, **pipes) for _ in range(2)]
    try:
        said = [child.communicate(timeout=240) for child in children]
    finally:
        for child in children:
            child.kill()
    assert [child.returncode for child in children] == [0, 0], said
    first, second = (json.loads(out)[0] for out, _ in said)
    assert first["run"] == second["run"]
    assert [run.info.status for run in parents(tracker)] == ["FINISHED"]
