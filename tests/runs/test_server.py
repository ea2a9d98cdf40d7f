"""Servers of MLflow: the UI as users start it, the quick path, and a server that is lost in the middle of a command."""

import contextlib
import signal
import socket

import numpy as np
import pytest

from clustering.foundation.errors import InputError
from runs.cache import Store
from runs.cli import main
from runs.config.configs import EvaluateConfig, parse
from runs.record import query as record
from runs.record.query import read_runs
from runs.record.server import serve
from runs.report.site import build_report
from runs.stages.pipeline import evaluation
from runs.track import Tracker
from tests.runs.children import until
from tests.runs.records import STATUSES, alike, fill
from tests.runs.servers import free_port, in_background, mlflow_server, wait_for
from tests.runs.typed import as_experiment, without
from tests.runs.unsteady import Unsteady


@pytest.fixture(scope="module")
def server(tmp_path_factory, child_environment):
    """A real server with artefacts behind it; started before the other tests, so that it is up when it is needed."""
    folder, port = tmp_path_factory.mktemp("server"), free_port()
    with mlflow_server(folder, port, child_environment) as child:
        yield child, port, folder


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_transduce_ui_until_it_is_ended(server, store, child_environment, tmp_path, number):
    port, log = free_port(), tmp_path / "log"
    command = ["-m", "runs.cli", "ui", f"port={port}", f"results={store.root}"]
    with in_background(command, child_environment, log) as child:
        assert wait_for(child, port) == 200
        shown = f"MLflow UI: http://127.0.0.1:{port} (press Ctrl-C to stop), on {store.database}"
        until(lambda: shown in log.read_text())
        with pytest.raises(InputError, match=f"port {port}: "):
            serve(store, port=port)
        child.send_signal(number)
        assert child.wait(60) == (-number if number == signal.SIGKILL else 0)
        assert "Traceback" not in log.read_text()
    until(lambda: _is_closed(port))


def _is_closed(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


@pytest.mark.slow
def test_the_quick_path_against_a_server(server, trained, notes, tiny_arguments, monkeypatch, tmp_path, capsys):
    child, port, folder = server
    wait_for(child, port)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"http://127.0.0.1:{port}")
    monkeypatch.chdir(tmp_path)
    trained.database.unlink()
    configs = parse(EvaluateConfig, [*tiny_arguments, "strategy=simpleshot,laplacianshot"])
    first = evaluation(configs, trained, Tracker(trained, say=notes.note), progress=notes)
    tracker = Tracker(trained, say=notes.note)
    again = evaluation(configs, trained, tracker, progress=notes)
    assert [result.reused for result in first + again] == [False, False, True, True]
    for old, new in zip(first, again, strict=True):
        np.testing.assert_array_equal(old.accuracies, new.accuracies)
        assert new.run_id == old.run_id
    run = tracker.find(first[0].key)
    assert capsys.readouterr().out == "", "MLflow writes nothing between results"
    assert run.info.run_name == "simpleshot 5w1s Tiny/conv4 s0"
    assert run.data.metrics["accuracy"] == pytest.approx(first[0].accuracy)
    assert len(list((folder / "files").glob("**/per_task.npz"))) == 2, "the server keeps the files"
    assert not trained.artifacts.exists()
    assert not trained.database.exists()
    dead = tracker.start("evaluate/Tiny", "x", stage="evaluation", key="d", params={})
    tracker.end_dead_runs()
    assert tracker.client.get_run(dead.run_id).info.status == "KILLED"
    site = build_report(trained, tracker, experiments={"tiny": configs}).parent
    page = (site / "experiments" / "tiny.html").read_text()
    assert f'"http://127.0.0.1:{port}/#/runs/{run.info.run_id}"' in page
    serve(trained, say=notes.note)
    assert "open that address" in notes


@pytest.mark.slow
def test_many_runs_are_the_same_from_a_server_and_from_its_database(server, store, monkeypatch):
    child, port, folder = server
    wait_for(child, port)
    by_server = Tracker(store, uri=f"http://127.0.0.1:{port}")
    by_file = Tracker(store, uri=f"sqlite:///{folder}/server.db")
    fill(by_server)
    monkeypatch.setattr(record, "PAGE", 3)
    for tags in ({}, {"benchmark": ["it's", "glyphs"]}, {"note": [""]}, {"key": [f"{i:016d}" for i in range(9)]}):
        rows = [read_runs(tracker, "evaluate/", tags=tags, statuses=STATUSES) for tracker in (by_server, by_file)]
        assert rows[0], tags
        alike(*rows)
    row = read_runs(by_server, "train/", statuses=["KILLED"])[0]
    assert row.artifact_uri.startswith("mlflow-artifacts:")


@pytest.mark.parametrize(("host", "port"), [("127.0.0.1", 0), ("127.0.0.1", 70000), ("203.0.113.1", 5000)])
def test_places_that_cannot_be(tmp_path, host, port):
    with pytest.raises(InputError, match=r"port .*65535|203\.0\.113\.1"):
        serve(Store(tmp_path / "results"), host=host, port=port)
    assert not any(tmp_path.iterdir())


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
def commands(trained, tiny_arguments, tiny_tuning, tmp_path, how):
    """What to type for each verb, what its server breaks at, and the experiment that its run is in. No two tests of one
    server have a result in common."""
    number, rest = HOW.index(how), without(tiny_arguments, "tasks")
    tiny = as_experiment(tmp_path / "table.yaml", *rest, "tasks=50", "strategy=simpleshot")
    typed = {
        "train": [*without(rest, "query", "epochs"), "epochs=2", "seed=7"],
        "evaluate": [*rest, f"tasks={40 + number}", "strategy=simpleshot,laplacianshot"],
        "tune": tiny_tuning,
        "table": [str(tiny), "--run-missing", "-y"],
        "cluster": ["method=kmeans", "dataset=spirals", "arms=3", "points=30", "starts=2"],
        "fair": ["dataset=synthetic", f"fairness_weight=0,{60 + number}", "n_init=1"],
    }
    breaks_at = {"train": '"val/simpleshot"', "cluster": "trials.npz", "fair": "path.npz"}
    places = {"table": "evaluate/Tiny", "cluster": "cluster/spirals", "fair": "fair/synthetic"}
    return {
        verb: (
            [verb, *words, f"results={trained.root}"],
            breaks_at.get(verb, "per_task.npz"),
            places.get(verb, f"{verb}/Tiny"),
        )
        for verb, words in typed.items()
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    ("verb", "how"),
    [
        *((verb, "refuse") for verb in ("train", "evaluate", "tune", "table", "cluster", "fair")),
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
