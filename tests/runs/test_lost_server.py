"""A tracking server that is lost in the middle of a command: it ends soon, says how to go on, and nothing is lost."""

import contextlib

import pytest

from runs.cli import main
from runs.record.query import read_runs
from runs.track import Tracker
from tests.runs.servers import free_port, mlflow_server, wait_for
from tests.runs.unsteady import Unsteady

HOW = ("refuse", "hang", "error")


@pytest.fixture(scope="module")
def upstream(tmp_path_factory, child_environment):
    folder, port = tmp_path_factory.mktemp("upstream"), free_port()
    with mlflow_server(folder, port, child_environment) as child:
        wait_for(child, port)
        yield port


@pytest.fixture
def unsteady(upstream, monkeypatch):
    """Makes a server that breaks; what a user sets for MLflow's patience counts."""
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "2")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR", "1")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_BACKOFF_JITTER", "0")
    with contextlib.ExitStack() as stack:

        def make(how, breaks_at):
            made = Unsteady(upstream, how, breaks_at.encode())
            stack.callback(made.close)
            monkeypatch.setenv("MLFLOW_TRACKING_URI", made.address)
            return made

        yield make


@pytest.fixture
def commands(trained, tiny_arguments, how):
    """What to type for each verb, what its server breaks at, and the experiment that its run is in. No two tests of one
    server have a result in common."""
    results = f"results={trained.root}"
    rest = [item for item in tiny_arguments if not item.startswith("tasks=")]
    training = [item for item in rest if not item.startswith(("query=", "epochs="))]
    tasks = f"tasks={40 + HOW.index(how)}"
    clusters = ["method=kmeans", "dataset=spirals", "arms=3", "points=30", "starts=2"]
    return {
        "train": (["train", *training, "epochs=2", "seed=7", results], '"val/simpleshot"', "train/Tiny"),
        "evaluate": (
            ["evaluate", *rest, tasks, "strategy=simpleshot,laplacianshot", results],
            "per_task.npz",
            "evaluate/Tiny",
        ),
        "cluster": (["cluster", *clusters, results], "trials.npz", "cluster/spirals"),
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    ("verb", "how"),
    [("train", "refuse"), ("evaluate", "refuse"), ("evaluate", "hang"), ("evaluate", "error"), ("cluster", "refuse")],
)
def test_a_server_that_is_lost_in_the_middle(unsteady, commands, trained, capsys, monkeypatch, verb, how):
    typed, breaks_at, experiment = commands[verb]
    server = unsteady(how, breaks_at)
    assert main(typed) == 2
    out, err = capsys.readouterr()
    assert server.broken
    assert server.address in err
    assert "same command" in err
    assert "Traceback" not in err + out
    tracker = Tracker(trained)
    server.mend()
    before = {row.run_id for row in read_runs(tracker, experiment)}
    if verb != "train":  # of which the rest is still to be done
        for place in ("fsl.evaluation.episodic.evaluate", "runs.stages.clustering.stage.fit_all"):
            monkeypatch.setattr(place, _never)
    assert main(typed) == 0
    finished = {row.run_id for row in read_runs(tracker, experiment)} - before
    assert finished
    assert not read_runs(tracker, experiment, tags={"results": [trained.id]}, statuses=["RUNNING"])


def _never(*_, **__):
    raise AssertionError("computed again")
