"""Jobs on a real Dask cluster of two worker processes, one of them killed; clusters that cannot be used."""

import contextlib
import os
import re
import signal
import socket
import sys
import threading

import numpy as np
import pytest

from clustering.foundation.errors import InputError
from runs.console.output import Console
from runs.scheduling.crews import crew
from runs.scheduling.execution import run_all
from runs.scheduling.missing import plan_missing
from runs.stages.pipeline import evaluation
from tests.runs.children import started, until
from tests.runs.records import runs_of

distributed = pytest.importorskip("distributed")
SCHEDULER = ["-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--no-dashboard", "--no-show", "--port"]
WORKER = ["-m", "distributed.cli.dask_worker", "--nthreads", "1", "--no-nanny", "--no-dashboard"]


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


@contextlib.contextmanager
def cluster(workers, environment, folder):
    """The address of a scheduler with so many workers, each a process, a client of it, and its process."""
    port = free_port()
    with contextlib.ExitStack() as stack:
        log = stack.enter_context((folder / "dask.log").open("w"))
        scheduler = stack.enter_context(started([*SCHEDULER, str(port)], environment, output=log))
        address = f"tcp://127.0.0.1:{port}"
        for i in range(workers):
            command = [*WORKER, "--local-directory", str(folder / f"worker-{i}"), address]
            stack.enter_context(started(command, environment, output=log))
        with distributed.Client(address, timeout=60, set_as_default=False) as client:
            client.wait_for_workers(workers, timeout=120)
            yield f"dask://127.0.0.1:{port}", client, scheduler


@pytest.mark.slow
def test_one_of_two_workers_is_killed_and_the_numbers_are_those_of_here(
    trained, tracker, configs, marks, troubled, child_environment, tmp_path, capsys
):
    asked = [*configs("strategy=simpleshot,tim_adm", "shot=1,2,3"), *configs(*troubled("stand", 1), "shot=2")]
    with cluster(2, child_environment, tmp_path) as (where, client, _):

        def kill_who_stands():
            (mark,) = until(lambda: list(marks.iterdir()))
            os.kill(int(mark.name.partition("-")[2]), signal.SIGKILL)

        killer = threading.Thread(target=kill_who_stands)
        killer.start()
        outcome = run_all(asked, trained, tracker, Console(), executor=where)
        killer.join()
        assert len(client.nthreads()) == 1
    assert outcome.failures == ()
    assert outcome.made + outcome.reused == len(asked)
    assert "jobs: " in capsys.readouterr().err
    there = evaluation(asked, trained, tracker)
    assert all(result.reused for result in there)
    here = evaluation(asked, trained, tracker, force=True)
    for one, other in zip(there, here, strict=True):
        np.testing.assert_array_equal(one.accuracies, other.accuracies)


@pytest.mark.slow
def test_a_scheduler_that_goes_away_is_said(trained, tracker, configs, marks, troubled, child_environment, tmp_path):
    with cluster(1, child_environment, tmp_path) as (where, _, scheduler):

        def kill_the_scheduler():
            until(lambda: list(marks.iterdir()))
            scheduler.kill()

        killer = threading.Thread(target=kill_the_scheduler)
        killer.start()
        outcome = run_all(configs(*troubled("stand", 1)), trained, tracker, Console(quiet=True), executor=where)
        killer.join()
    (failure,) = outcome.failures
    assert f"{where} has stopped" in failure.why
    assert outcome.code == 1


@pytest.mark.slow
def test_workers_that_do_not_see_the_results_are_named(trained, tracker, configs, child_environment, tmp_path):
    missing = plan_missing(configs(), trained, tracker)
    with cluster(1, child_environment, tmp_path) as (where, client, _):
        # The token is not there: as if the workers had another folder of that name.
        refused = pytest.raises(InputError, match="cannot access the results folder")
        with refused, crew(where, missing.jobs, Console(), on_gpu=False):
            pass
        (worker,) = client.nthreads()
        client.retire_workers([worker], close_workers=True)
        with pytest.raises(InputError, match="no workers"):
            run_all(configs(), trained, tracker, Console(quiet=True), executor=where)
    assert runs_of(tracker, "evaluate/Tiny") == []


def test_a_scheduler_that_is_not_there_is_said_in_seconds(trained, tracker, configs, monkeypatch):
    monkeypatch.setattr("runs.scheduling.crews.SECONDS", 0.5)
    where = f"dask://127.0.0.1:{free_port()}"
    with pytest.raises(InputError, match=re.escape(where)) as caught:
        run_all(configs(), trained, tracker, Console(quiet=True), executor=where)
    assert "dask worker" in str(caught.value)
    assert not list(trained.root.glob(".token-*"))


def test_without_the_package_the_extra_is_named(trained, tracker, configs, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(InputError, match=r"transduce\[dask\]"):
        run_all(configs(), trained, tracker, Console(quiet=True), executor="dask://127.0.0.1:1")
