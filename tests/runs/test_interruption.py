"""Interrupted and killed in the middle of training, extraction, evaluation: the same command goes on."""

import signal

import pytest

from runs.cli import main
from runs.config.configs import EvaluateConfig, parse
from runs.plan import plan
from runs.record.query import read_runs
from runs.stages.lineage import Lineage
from runs.stages.pipeline import evaluation
from runs.track import Tracker
from tests.runs.children import interrupted
from tests.runs.records import copy_results, runs_of
from tests.runs.stopping import interrupt
from tests.runs.typed import without

# A real `transduce evaluate` that stands still at the place asked for, and says so.
CHILD = """
import sys, time
from tests.runs.test_interruption import stop_at

def stand(*_, **__):
    print("reached", flush=True)
    time.sleep(120)

stop_at(sys.argv[1], stand, setattr)
from runs.cli import main

sys.exit(main(["evaluate", *sys.argv[2:]]))
"""
HERE = 0  # by Ctrl-C, in the process of the tests
KILLED, ENDED = (pytest.param(number, marks=pytest.mark.slow) for number in (signal.SIGKILL, signal.SIGTERM))
CONTROL_C = pytest.param(signal.SIGINT, marks=pytest.mark.slow)


def stop_at(where, stop, change):
    """The program calls `stop` at that place."""
    import fsl.evaluation.episodic
    import fsl.features.pictures
    from clustering.deep.trainer import WholeFiles
    from runs.record.tracked_run import TrackedRun

    write = WholeFiles.save_checkpoint

    def save_checkpoint(self, checkpoint, path, storage_options=None):
        if checkpoint["epoch"] == 1:
            stop()  # logged, but the state of this epoch is not saved yet
        write(self, checkpoint, path, storage_options)

    owner, name, value = {
        "training": (WholeFiles, "save_checkpoint", save_checkpoint),
        "publishing": (TrackedRun, "finish", stop),  # the checkpoint is in its place, its run is not marked yet
        "extraction": (fsl.features.pictures.Pictures, "features", stop),
        "recording": (fsl.evaluation.scores.np, "savez_compressed", stop),
        "evaluation": (fsl.evaluation.episodic, "evaluate", stop),
    }[where]
    change(owner, name, value)


@pytest.fixture
def interrupt_at(store, child_environment, tiny_arguments, monkeypatch, capsys):
    """Runs the command until it is at a place, then interrupts or kills it; gives its exit code and messages."""

    def run(where, number):
        typed = [f"results={store.root}", *tiny_arguments, "strategy=simpleshot"]
        if number != HERE:
            return interrupted(["-c", CHILD, where, *typed], child_environment, number)
        with monkeypatch.context() as patch:
            stop_at(where, interrupt, patch.setattr)
            return main(["evaluate", *typed]), capsys.readouterr().err

    return run


@pytest.fixture
def config(tiny_arguments):
    (found,) = parse(EvaluateConfig, [*tiny_arguments, "strategy=simpleshot"])
    return found


@pytest.mark.parametrize("number", [HERE, KILLED, CONTROL_C, ENDED])
def test_training(interrupt_at, store, tracker, config, notes, number):
    code, messages = interrupt_at("training", number)
    assert code == (-number if number == signal.SIGKILL else 130)
    (dead,) = runs_of(tracker, "train/Tiny")
    assert dead.info.status == ("RUNNING" if number == signal.SIGKILL else "KILLED")
    assert not store.peek("checkpoint", Lineage.of(config).checkpoint), "nothing half-done counts"
    states = {step.stage: step.state for step in plan([config], store)}
    assert states["checkpoint"] == "interrupted"
    if number != signal.SIGKILL:
        assert "same command" in messages
        assert "Traceback" not in messages
    (result,) = evaluation([config], store, tracker, progress=notes)
    assert not result.reused
    assert "going on with the interrupted run of Tiny/conv4 s0" in notes
    assert "resuming after epoch 1" in notes
    (training,) = runs_of(tracker, "train/Tiny")
    assert training.info.run_id == dead.info.run_id
    assert training.info.status == "FINISHED"
    for name in ("train/loss_epoch", "val/simpleshot"):
        steps = [point.step for point in tracker.client.get_metric_history(training.info.run_id, name)]
        assert steps
        assert len(steps) == len(set(steps))


@pytest.mark.parametrize("number", [HERE, KILLED])
def test_between_the_checkpoint_and_its_mark(interrupt_at, store, tracker, config, notes, number):
    interrupt_at("publishing", number)
    expected = "KILLED" if number == HERE else "RUNNING"
    assert [run.info.status for run in runs_of(tracker, "train/Tiny")] == [expected]
    evaluation([config], store, tracker, progress=notes)
    assert [run.info.status for run in runs_of(tracker, "train/Tiny")] == ["FINISHED"]
    assert not any(bar.startswith("training") for bar in notes.bars)
    (folder,) = store.cache("checkpoint").iterdir()
    assert (folder / "best.safetensors").exists()


@pytest.mark.parametrize("number", [HERE, KILLED])
def test_extraction(interrupt_at, trained, tracker, config, notes, number):
    key = Lineage.of(config).bank("novel")
    (trained.cache("features") / key / "features.safetensors").unlink()
    interrupt_at("extraction", number)
    assert trained.find("features", key) is None
    (result,) = evaluation([config], trained, tracker, progress=notes)
    assert not result.reused
    assert trained.find("features", key) is not None


@pytest.mark.parametrize("number", [HERE, KILLED])
@pytest.mark.parametrize("where", ["evaluation", "recording"])
def test_evaluation(interrupt_at, trained, tracker, config, notes, where, number):
    interrupt_at(where, number)
    (dead,) = runs_of(tracker, "evaluate/Tiny")
    assert dead.info.status == ("KILLED" if number == HERE else "RUNNING")
    (result,) = evaluation([config], trained, tracker, progress=notes)
    assert not result.reused
    (run,) = runs_of(tracker, "evaluate/Tiny")
    assert (run.info.run_id, run.info.status) == (result.run_id, "FINISHED")
    assert run.info.run_id == dead.info.run_id, "the interrupted run goes on"
    assert number == HERE or "marked as KILLED" in notes
    (again,) = evaluation([config], trained, tracker, progress=notes)
    assert again.reused
    assert again.run_id == result.run_id


@pytest.mark.parametrize(
    "verb", ["train", "evaluate", *(pytest.param(verb, marks=pytest.mark.slow) for verb in ("tune", "cluster", "fair"))]
)
def test_a_killed_forced_run_is_marked_by_a_command_that_reuses(
    verb, trained_results, store, tiny_arguments, tiny_tuning
):
    copy_results(trained_results, store)
    tracker = Tracker(store)
    typed = {
        "train": without(tiny_arguments, "tasks", "query"),
        "evaluate": [*tiny_arguments, "strategy=simpleshot"],
        "tune": tiny_tuning,
        "cluster": ["method=kmeans", "dataset=spirals", "arms=3", "points=30", "starts=2"],
        "fair": ["dataset=synthetic", "method=fair_kmeans", "fairness_weight=0", "n_init=1"],
    }
    command = [verb, *typed[verb], f"results={store.root}"]
    assert main(command) == 0
    finished = read_runs(tracker, "")
    values = {"stage": "evaluation", "key": "f" * 16, "params": {}, "config": "", "tags": {}}
    killed = tracker.start("evaluate/Tiny", "killed", **values)
    assert main(command) == 0
    assert tracker.client.get_run(killed.run_id).info.status == "KILLED"
    assert read_runs(tracker, "") == finished
