"""A tracking server that is lost in the middle of a command: it ends soon, says how to go on, and nothing is lost."""

import contextlib

import numpy as np
import pytest
from PIL import Image

from runs.cli import main
from runs.record.query import read_runs
from runs.track import Tracker
from tests.runs.servers import free_port, mlflow_server, wait_for
from tests.runs.unsteady import Unsteady

HOW = ("refuse", "hang", "error")
PROTOCOL = "tasks: 30\nlaplacianshot:\n- {split: validation, grid: {weight: [0.1, 0.7]}}\n"


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
def commands(trained, tiny_arguments, tmp_path, how):
    """What to type for each verb, what its server breaks at, and the experiment that its run is in. No two tests of one
    server have a result in common."""
    number = HOW.index(how)
    results = f"results={trained.root}"
    (tmp_path / "short.yaml").write_text(PROTOCOL)
    rest = [item for item in tiny_arguments if not item.startswith("tasks=")]
    lines = [item.replace("=", ": ", 1) for item in [*rest, "tasks=50", "strategy=simpleshot"]]
    (tmp_path / "tiny.yaml").write_text("\n".join(lines) + "\n")
    training = [item for item in rest if not item.startswith(("query=", "epochs="))]
    for part, name in (("support", "red"), ("support", "blue"), ("query", ".")):
        (tmp_path / part / name).mkdir(parents=True)
        pixels = np.full((32, 32, 3), (200, 40, 40) if name == "red" else (40, 40, 190), dtype=np.uint8)
        Image.fromarray(pixels).save(tmp_path / part / name / f"{part}.png")
    network = next(trained.cache("checkpoint").glob("*/best.safetensors"))
    pictures = [f"support={tmp_path}/support", f"query={tmp_path}/query", f"backbone={network}"]
    small = ["dataset=spirals", "arms=3", "points=30"]
    return {
        "train": (["train", *training, "epochs=2", "seed=7", results], '"val/simpleshot"', "train/Tiny"),
        "evaluate": (
            ["evaluate", *rest, f"tasks={40 + number}", "strategy=simpleshot,laplacianshot", results],
            "per_task.npz",
            "evaluate/Tiny",
        ),
        "tune": (
            ["tune", *rest, f"tuning={tmp_path}/short.yaml", "strategy=laplacianshot", results],
            "per_task.npz",
            "tune/Tiny",
        ),
        "table": (
            ["table", str(tmp_path / "tiny.yaml"), results, "--run-missing", "-y"],
            "per_task.npz",
            "evaluate/Tiny",
        ),
        "cluster": (["cluster", "method=kmeans", *small, "starts=2", results], "trials.npz", "cluster/spirals"),
        "fair": (
            ["fair", "dataset=synthetic", f"fairness_weight=0,{60 + number}", "n_init=1", results],
            "path.npz",
            "fair/synthetic",
        ),
        "classify": (["classify", *pictures, results], "predictions.csv", "classify/support"),
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    ("verb", "how"),
    [
        *((verb, "refuse") for verb in ("train", "evaluate", "tune", "table", "cluster", "fair", "classify")),
        ("evaluate", "hang"),
        ("fair", "error"),
    ],
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

    if verb not in ("train", "tune"):  # of which the rest is still to be done
        for place in (
            "fsl.evaluation.episodic.evaluate",
            "runs.stages.clustering.fitting.fit_all",
            "runs.stages.fair.results.TradeOff.of",
        ):
            monkeypatch.setattr(place, _never)
        monkeypatch.setattr("fsl.features.image_encoder.ImageEncoder.encode", _never)
    assert main(typed) == 0
    finished = {row.run_id for row in read_runs(tracker, experiment)} - before
    assert finished
    assert not read_runs(tracker, experiment, tags={"results": [trained.id]}, statuses=["RUNNING"])


def _never(*_, **__):
    raise AssertionError("computed again")
