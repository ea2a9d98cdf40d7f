"""The MLflow UI as users start it, and the quick path against a real MLflow server."""

import signal
import socket

import numpy as np
import pytest

from clustering.foundation.errors import InputError
from runs.cache import Store
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
        shown = f"MLflow UI: http://127.0.0.1:{port} (press Ctrl-C to stop)"
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
    assert tracker.get(dead.run_id).info.status == "KILLED"
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
