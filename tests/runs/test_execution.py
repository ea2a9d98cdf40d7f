"""Many configs in processes of their own: what is planned, what fails alone, what goes on after a kill."""

import contextlib
import multiprocessing
import os
import signal
import time
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import numpy as np
import pytest

from clustering.foundation.errors import InputError
from runs.cli import main
from runs.config.configs import EvaluateConfig, parse
from runs.console.output import Console
from runs.scheduling.execution import Outcome, run_all
from runs.scheduling.jobs import KeptNotes, check_place, perform
from runs.scheduling.local_pool import LocalPool
from runs.scheduling.missing import plan_missing
from runs.scheduling.relay import Relay, Sender
from runs.stages.pipeline import evaluation
from tests.runs.children import started, together, until
from tests.runs.records import runs_of

# What is planned.


def test_features_come_first_and_what_shares_tasks_goes_together(store, tracker, configs):
    asked = configs("strategy=simpleshot,laplacianshot", "shot=1,3", "seed=0,1")
    missing = plan_missing(asked, store, tracker)
    assert len(missing.features) == 2, "one for each training"
    assert [job.evaluations for job in missing.features.values()] == [4, 4]
    assert [(job.evaluations, needs in missing.features) for job, needs in missing.evaluations] == [(2, True)] * 4
    assert missing.count == len(asked)
    assert missing.plan.time.startswith("unknown")
    assert not store.tables.exists()
    assert not runs_of(tracker, "evaluate/Tiny")


def test_nothing_is_planned_for_what_is_there(trained, tracker, configs):
    asked = configs("strategy=simpleshot,nearest")
    evaluation(asked[:1], trained, tracker)
    missing = plan_missing(asked, trained, tracker)
    assert (missing.finished, missing.count, missing.features) == (1, 1, {})
    evaluation(asked[1:], trained, tracker)
    assert plan_missing(asked, trained, tracker).jobs == []
    assert run_all(asked, trained, tracker, Console(quiet=True)) == Outcome(0, 2)


def test_what_stands_on_an_earlier_checkpoint_is_missing(trained, tracker, configs):
    (result,) = evaluation(configs(), trained, tracker)
    tracker.client.set_tag(result.run_id, "checkpoint", "an earlier one")
    assert plan_missing(configs(), trained, tracker).count == 1


def test_the_time_is_that_of_runs_alike(trained, tracker, configs):
    (result,) = evaluation(configs(), trained, tracker)
    (step,) = plan_missing(configs("tasks=4000"), trained, tracker).plan.steps[-1:]
    cores = step.seconds / (4000 * result.seconds_per_task)
    assert 1 / cores == pytest.approx(round(1 / cores)), "shared out over the cores"
    unknown = plan_missing(configs("strategy=nearest"), trained, tracker).plan
    assert unknown.steps[-1].seconds is None
    both = plan_missing(configs("strategy=simpleshot,nearest", "tasks=4000"), trained, tracker).plan
    assert "at least" in both.time


def test_the_time_of_a_training_goes_with_its_epochs(store, tracker, configs):
    evaluation(configs(), store, tracker)
    (run,) = runs_of(tracker, "train/Tiny")
    missing = plan_missing(configs("epochs=30", "milestones=[20]"), store, tracker)
    (training,) = [step for step in missing.plan.steps if step.stage == "checkpoint"]
    assert training.seconds == pytest.approx(10 * run.data.metrics["seconds"])
    features = [step for step in missing.plan.steps if step.stage == "features"]
    assert all(step.seconds > 0 for step in features), "the speed of the last extraction is known"
    (job,) = missing.features.values()
    assert job.seconds == pytest.approx(training.seconds + sum(step.seconds for step in features))


def test_images_that_are_not_there_are_said_and_stop_nothing_else(trained, tracker, configs, tmp_path):
    elsewhere = parse(EvaluateConfig, ["benchmark=omniglot", f"root={tmp_path}", "strategy=simpleshot,nearest"])
    missing = plan_missing([*elsewhere, *configs()], trained, tracker)
    (blocked,) = missing.blocked
    assert str(tmp_path) in blocked.why
    assert (blocked.evaluations, blocked.code) == (2, 2)
    assert missing.count == 1


# What fails, and what does not.


@pytest.mark.slow
def test_a_failure_or_a_killed_process_stops_nothing_else(trained, tracker, configs, troubled, marks, capsys):
    asked = [
        *configs("strategy=tiny_plugins:Failing,simpleshot,laplacianshot"),
        *configs(*troubled("die", 1), "shot=2"),
        *configs("shot=3"),
    ]
    outcome = run_all(asked, trained, tracker, Console())
    assert (outcome.made, outcome.reused, outcome.code) == (4, 0, 1)
    (failure,) = outcome.failures
    assert "Failing" in failure.name
    assert "ZeroDivisionError: on purpose" in failure.why
    said = capsys.readouterr().err
    assert "starting it again" in said
    assert "evaluating: 40 of 40" in said, "a bar of another process"
    assert "jobs: 3 of 3" in said
    assert len(list(marks.iterdir())) == 1
    assert not list(trained.root.glob(".token-*"))
    states = sorted(run.info.status for run in runs_of(tracker, "evaluate/Tiny"))
    assert states == ["FAILED", "FINISHED", "FINISHED", "FINISHED", "FINISHED", "KILLED"]
    again = run_all(asked[1:], trained, tracker, Console())
    assert (again.made, again.reused, again.failures) == (0, 4, ())


@pytest.mark.slow
def test_a_process_killed_each_time_is_given_up(trained, tracker, configs, troubled, marks):
    outcome = run_all([*configs(*troubled("die", 9)), *configs("shot=3")], trained, tracker, Console(quiet=True))
    (failure,) = outcome.failures
    assert "killed each time" in failure.why
    assert (outcome.made, outcome.code) == (1, 1)
    assert len(list(marks.iterdir())) == 2


@pytest.mark.slow
def test_results_are_those_of_this_process(trained, tracker, configs, tmp_path):
    asked = configs("strategy=simpleshot,tim_adm")
    assert run_all(asked, trained, tracker, Console(quiet=True)).made == 2
    there = evaluation(asked, trained, tracker)
    here = evaluation(asked, trained, tracker, force=True)
    assert all(result.reused for result in there)
    for one, other in zip(there, here, strict=True):
        np.testing.assert_array_equal(one.accuracies, other.accuracies)


@pytest.mark.usefixtures("jobs_here")
def test_what_needs_a_failed_training_is_not_begun(store, tracker, configs):
    asked = configs("learning_rate=1e15", "strategy=simpleshot,nearest", "shot=1,3")
    outcome = run_all(asked, store, tracker, Console(quiet=True))
    (failure,) = outcome.failures
    assert failure.name.startswith("training and features of")
    assert failure.evaluations == 4
    assert outcome.code == failure.code != 0
    assert not runs_of(tracker, "evaluate/Tiny")


@pytest.mark.usefixtures("jobs_here")
def test_nothing_is_trained_for_tasks_that_cannot_be_drawn(store, tracker, configs):
    outcome = run_all(configs("way=50"), store, tracker, Console(quiet=True))
    assert outcome.code == 2
    assert not runs_of(tracker, "train/Tiny")


def test_nothing_is_begun_when_the_time_is_up(trained, tracker, configs):
    asked = configs("shot=1,3")
    outcome = run_all(asked, trained, tracker, Console(quiet=True), limit_minutes=1e-9)
    assert len(outcome.not_started) == 2
    assert outcome.code == 0
    assert not runs_of(tracker, "evaluate/Tiny")
    evaluation(asked[:1], trained, tracker)
    long = configs("tasks=10000000")  # minutes, by the runs before
    assert len(run_all(long, trained, tracker, Console(quiet=True), limit_minutes=0.01).not_started) == 1


def test_a_job_elsewhere_says_that_it_does_not_see_the_results(trained, tracker, configs, tmp_path, monkeypatch):
    job, _ = plan_missing(configs(), trained, tracker).evaluations[0]
    report = perform(job)
    assert report.failures[0].code == 2
    assert "cannot access the results folder" in report.failures[0].why
    (trained.root / job.token).touch()
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://elsewhere:5000")
    with pytest.raises(InputError, match="for both or neither"):
        check_place(job.results, job.token, job.uri)


# Killed, and twice at once.


@pytest.fixture
def typed(trained, tiny_arguments, tmp_path):
    """What to type for the table of an experiment of seconds."""
    path = tmp_path / "tiny.yaml"
    path.write_text("".join(f"{key.replace('=', ': ', 1)}\n" for key in [*tiny_arguments, "strategy=simpleshot"]))
    return ["table", str(path), f"results={trained.root}", "--run-missing"]


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_killed_in_the_middle_it_goes_on(trained, tracker, configs, typed, troubled, marks, child_environment, number):
    evaluation(configs("shot=3"), trained, tracker)
    with started(["-m", "runs.cli", *typed, *troubled("stand", 1), "-y"], child_environment) as child:
        (mark,) = until(lambda: list(marks.iterdir()) or child.poll() is not None)
        worker = int(mark.name.partition("-")[2])
        assert worker != child.pid
        child.send_signal(number)
        _, messages = child.communicate(timeout=60)
        until(lambda: not alive(worker))
    assert child.returncode == (-number if number == signal.SIGKILL else 130)
    assert number == signal.SIGKILL or "same command" in messages
    assert "Traceback" not in messages
    states = {run.info.status for run in runs_of(tracker, "evaluate/Tiny")}
    assert states == {"FINISHED", "KILLED"}, "the worker ends by itself, and marks its run"
    outcome = run_all([*configs(*troubled("stand", 1)), *configs("shot=3")], trained, tracker, Console(quiet=True))
    assert (outcome.made, outcome.reused, outcome.failures) == (1, 1, ())


@pytest.mark.slow
def test_two_commands_at_once_make_nothing_twice(tracker, typed, child_environment):
    command = ["-m", "runs.cli", *typed, "strategy=simpleshot,nearest", "-y"]
    together([command] * 2, child_environment, seconds=240)
    states = [run.info.status for run in runs_of(tracker, "evaluate/Tiny")]
    assert states == ["FINISHED"] * 2


# At the command line.


def test_without_a_terminal_it_wants_a_yes(typed, capsys, monkeypatch):
    assert main(typed) == 2
    said = capsys.readouterr().err
    assert "1 evaluation in 1 job: 1 new runs" in said
    assert "add -y" in said
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("sys.stdin.readline", lambda: "n\n", raising=False)
    assert main(typed) == 0
    assert "nothing was run" in capsys.readouterr().err
    assert main([*typed, "-y", "--limit-minutes=1e-9"]) == 0
    assert "not started within" in capsys.readouterr().err


# The processes.


@pytest.fixture
def pool():
    relay = Relay(Console(quiet=True))
    with LocalPool(relay, ["5", "3"]) as made:
        yield made
    relay.close()


def test_a_process_is_used_again_and_one_that_dies_takes_no_other_with_it(pool):
    first = pool.submit(os.getpid).result()
    assert pool.submit(os.getpid).result() == first != os.getpid()
    long = pool.submit(time.sleep, 1)
    dying = pool.submit(os._exit, 3)
    with pytest.raises(BrokenProcessPool):
        dying.result()
    assert long.result() is None
    assert pool.submit(os.getpid).result() == first


def test_each_process_has_a_gpu_to_itself(pool):
    long = pool.submit(time.sleep, 1)
    seen = {pool.submit(os.getenv, "CUDA_VISIBLE_DEVICES").result()}
    long.result()
    assert seen | {pool.submit(os.getenv, "CUDA_VISIBLE_DEVICES").result()} == {"3", "5"}


def test_an_error_in_a_job_ends_all_processes():
    relay = Relay(Console(quiet=True))
    with contextlib.suppress(ZeroDivisionError), LocalPool(relay) as pool:
        process = pool.submit(os.getpid).result()
        pool.submit(time.sleep, 300)
        raise ZeroDivisionError
    relay.close()
    assert not alive(process)


# What other processes say.


def test_bars_and_notes_of_several_processes(capsys):
    relay = Relay(Console())
    pipes = [multiprocessing.Pipe() for _ in range(2)]
    for ours, _ in pipes:
        relay.add(ours)
    one, other = (Sender(theirs) for _, theirs in pipes)
    with one.track("first", 10) as first, other.track("second", 5) as second:
        with one.track("inner", 3) as inner:
            inner(3)
        first(10, accuracy=0.5)
        second(2)
        other.note("a note")
        pipes[1][1].close()  # a process that is killed
        second(3)
        other.note("lost")
    pipes[0][1].close()
    relay.close()
    said = capsys.readouterr().err
    assert "first: 10 of 10" in said
    assert "accuracy 0.5" in said
    assert "second: 2 of 5" in said or "second: 0 of 5" in said
    assert "a note" in said
    assert "inner:" not in said
    assert "lost" not in said


def test_without_a_screen_notes_are_kept():
    kept = KeptNotes()
    kept.note("something")
    with kept.track("work", 3) as advance:
        advance(3)
    assert kept.notes == ["something"]
