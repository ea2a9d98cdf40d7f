"""Killed in the middle of training, extraction, evaluation: the same command goes on, and the dead run is marked."""

import signal

import pytest

from runs.config import EvaluateConfig, parse
from runs.lineage import Lineage
from runs.stages import evaluation, plan
from tests.runs.children import interrupted
from tests.runs.records import runs_of

# A real `transduce evaluate` that stands still at the place asked for, and says so.
CHILD = """
import sys, time

def stand(*_, **__):
    print("reached", flush=True)
    time.sleep(120)

where = sys.argv[1]
if where == "training":
    from runs.tracked_run import TrackedRun
    record = TrackedRun.metrics
    def metrics(self, values, step):
        record(self, values, step)
        if "train_loss" in values and step == 2:
            stand()  # logged, but the state of this epoch is not saved yet
    TrackedRun.metrics = metrics
elif where == "publishing":
    from runs.tracked_run import TrackedRun
    TrackedRun.finish = stand  # the checkpoint is in its place, its run is not marked yet
elif where == "extraction":
    import fsl.features
    fsl.features.extract = stand
elif where == "recording":
    import runs.results
    runs.results.np.savez_compressed = stand
elif where == "evaluation":
    import fsl.evaluation
    fsl.evaluation.evaluate = stand

from runs.cli import main

sys.exit(main(["evaluate", *sys.argv[2:]]))
"""


@pytest.fixture
def interrupt(store, child_environment, tiny_arguments):
    """Runs the command until it stands at a place, then sends it a signal; gives its exit code and messages."""

    def run(where, number=signal.SIGKILL):
        typed = [f"results={store.root}", *tiny_arguments, "strategy=simpleshot"]
        return interrupted(["-c", CHILD, where, *typed], child_environment, number)

    return run


@pytest.fixture
def config(tiny_arguments):
    (found,) = parse(EvaluateConfig, [*tiny_arguments, "strategy=simpleshot"])
    return found


@pytest.mark.parametrize(
    "number", [signal.SIGINT, *(pytest.param(n, marks=pytest.mark.slow) for n in (signal.SIGKILL, signal.SIGTERM))]
)
def test_training(interrupt, store, tracker, config, notes, number):
    code, messages = interrupt("training", number)
    assert code == (-number if number == signal.SIGKILL else 130)
    (dead,) = runs_of(tracker, "train/Tiny")
    assert dead.info.status == ("RUNNING" if number == signal.SIGKILL else "KILLED")
    assert store.peek("checkpoints", Lineage.of(config).checkpoint) is None, "nothing half-done counts"
    states = {step.stage: step.state for step in plan([config], store, tracker).steps}
    assert states["checkpoint"] == "interrupted"
    if number != signal.SIGKILL:
        assert "same command" in messages
        assert "Traceback" not in messages
    (result,) = evaluation([config], store, tracker, progress=notes)
    assert not result.reused
    assert "going on with the interrupted training of Tiny/conv4 s0" in notes
    assert "going on after epoch 1" in notes
    (training,) = runs_of(tracker, "train/Tiny")
    assert training.info.run_id == dead.info.run_id
    assert training.info.status == "FINISHED"
    curve = tracker.client.get_metric_history(training.info.run_id, "train_loss")
    assert [point.step for point in curve] == [1, 2, 3]
    steps = [point.step for point in tracker.client.get_metric_history(training.info.run_id, "step_loss")]
    assert len(steps) == len(set(steps))


@pytest.mark.slow
def test_between_the_checkpoint_and_its_mark(interrupt, store, tracker, config, notes):
    interrupt("publishing")
    assert [run.info.status for run in runs_of(tracker, "train/Tiny")] == ["RUNNING"]
    evaluation([config], store, tracker, progress=notes)
    assert [run.info.status for run in runs_of(tracker, "train/Tiny")] == ["FINISHED"]
    assert not any(bar.startswith("training") for bar in notes.bars)
    (folder,) = store.cache("checkpoints").iterdir()
    assert sorted(path.name for path in folder.iterdir()) == ["README.md", "best.safetensors", "complete.json"]


@pytest.mark.slow
def test_extraction(interrupt, trained, tracker, config, notes):
    key = Lineage.of(config).bank("novel")
    (trained.cache("features") / key / "features.safetensors").unlink()
    interrupt("extraction")
    assert trained.peek("features", key) is None
    (result,) = evaluation([config], trained, tracker, progress=notes)
    assert not result.reused
    assert trained.peek("features", key) is not None


@pytest.mark.parametrize("where", ["recording", pytest.param("evaluation", marks=pytest.mark.slow)])
def test_evaluation(interrupt, trained, tracker, config, notes, where):
    interrupt(where)
    (dead,) = runs_of(tracker, "evaluate/Tiny")
    assert dead.info.status == "RUNNING"
    (result,) = evaluation([config], trained, tracker, progress=notes)
    assert not result.reused
    states = {run.info.run_id: run.info.status for run in runs_of(tracker, "evaluate/Tiny")}
    assert states == {dead.info.run_id: "KILLED", result.run_id: "FINISHED"}
    assert "marked as KILLED" in notes
    (again,) = evaluation([config], trained, tracker, progress=notes)
    assert again.reused
    assert again.run_id == result.run_id
