"""Many configs as jobs on loky, Dask and submitit: what is missing, what fails alone, what goes on after a kill."""

import contextlib
import io
import signal
import sys
from pathlib import Path

import numpy as np
import pytest

from clustering.foundation.errors import InputError
from runs.cli import main
from runs.config.configs import ClusterConfig, EvaluateConfig, FairConfig, TuneConfig, parse
from runs.console.output import Console
from runs.jobs import Place, missing, perform
from runs.parallel import Parallel, run_all
from runs.stages.pipeline import evaluation
from tests.runs.children import started, until
from tests.runs.records import runs_of
from tests.runs.servers import free_port
from tests.runs.typed import as_experiment

TWO = Parallel(n_jobs=2)


@pytest.fixture(autouse=True)
def visible_plugins(monkeypatch, child_environment):
    """Processes of jobs find the plug-ins of the tests, and end with the test."""
    monkeypatch.setenv("PYTHONPATH", child_environment["PYTHONPATH"])
    yield
    if "joblib.externals.loky" in sys.modules:
        from joblib.externals.loky import get_reusable_executor

        get_reusable_executor().shutdown(wait=True, kill_workers=True)


@pytest.fixture
def run(tracker):
    """Run what is missing of some configs."""

    def start(configs, parallel=TWO, **more):
        batch = missing(configs, tracker.store)
        run_all(batch, tracker, Console(quiet=True), parallel, **more)
        return batch

    return start


def accuracies(results):
    return [result.accuracies for result in results]


# What is missing.


def test_each_network_comes_first_and_what_shares_tasks_is_one_job(store, tracker, configs):
    asked = configs("strategy=simpleshot,laplacianshot", "shot=1,3", "seed=0,1")
    found = missing(asked, store)
    assert [len(job) for job in found.jobs.values()] == [2] * 4
    assert {job[0].seed for job in list(found.jobs.values())[:2]} == {0, 1}, "no process waits for the other's network"
    assert (found.count, len(found.cached)) == (len(asked), 0)
    assert not runs_of(tracker, "evaluate/Tiny")


def test_tunings_and_clusterings_are_jobs_too_and_what_cannot_be_run_is_said(trained, tiny_tuning, run, tmp_path):
    absent = ["benchmark=omniglot", f"root={tmp_path / 'absent'}", "strategy=simpleshot", "tasks=40", "device=cpu"]
    asked = [
        *parse(ClusterConfig, ["dataset=digits", "method=kmeans,kmodes", "starts=1", "selection=null", "device=cpu"]),
        *parse(FairConfig, ["dataset=synthetic", "method=fair_kmeans", "fairness_weight=0,1", "device=cpu"]),
        *parse(TuneConfig, tiny_tuning),
    ]
    late = run(asked, Parallel(n_jobs=1), minutes=1e-9)
    assert [config for job in late.jobs.values() for config in job] == asked
    batch = run([*parse(EvaluateConfig, absent), *asked], Parallel(n_jobs=1))
    assert (batch.computed, batch.jobs, batch.code) == (4, {}, 2)
    ((failure, _),) = batch.failures
    assert "root" in failure
    assert run(asked).cached == asked


# Processes of this machine.


@pytest.mark.slow
def test_results_are_those_of_this_process_and_one_failure_stops_nothing_else(trained, tracker, configs, run, capsys):
    asked = configs("strategy=simpleshot,laplacianshot", "shot=1,3")
    batch = run([*asked, *configs("way=50")])
    assert (batch.computed, [code for _, code in batch.failures]) == (4, [2]), batch.failures
    several = evaluation(asked, trained, tracker)
    assert all(result.reused for result in several)
    alone = evaluation(asked, trained, tracker, force=True)
    for one, other in zip(accuracies(several), accuracies(alone), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.slow
def test_after_a_killed_process_the_same_command_goes_on(trained, tracker, configs, troubled, run):
    asked = [*configs("strategy=simpleshot", "shot=1"), *configs(*troubled("die", 1), "shot=2")]
    batch = run(asked)
    assert batch.code == 1
    assert "rerun the same command" in batch.failures[0][0]
    assert batch.jobs
    batch = run(asked)
    assert (batch.code, batch.computed + len(batch.cached)) == (0, 2), batch.failures
    assert {entry.info.status for entry in runs_of(tracker, "evaluate/Tiny")} == {"FINISHED"}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
@pytest.mark.slow
def test_a_command_that_ends_leaves_no_process_behind_and_goes_on(
    trained, tracker, troubled, marks, tiny_arguments, child_environment, tmp_path, number
):
    experiment = as_experiment(tmp_path / "mine.yaml", *tiny_arguments, *troubled("stand", 2), "shot=[1, 2]")
    words = ["table", str(experiment), f"results={trained.root}", "--run-missing", "-y", "parallel.n_jobs=2"]
    with started(["-m", "runs.cli", *words], child_environment) as child:
        workers = [int(mark.name.partition("-")[2]) for mark in until(lambda: two(marks))]
        child.send_signal(number)
        _, said = child.communicate(timeout=60)
    assert number == signal.SIGKILL or "same command" in said
    until(lambda: not any(Path(f"/proc/{worker}").exists() for worker in workers))
    assert main([word for word in words if "parallel" not in word]) == 0
    found = runs_of(tracker, "evaluate/Tiny")
    assert "RUNNING" not in {entry.info.status for entry in found}
    made = [entry for entry in found if entry.data.tags.get("stage") == "evaluation"]
    assert [entry.info.status for entry in made].count("FINISHED") == 2


def two(folder):
    found = list(folder.iterdir())
    return found if len(found) == 2 else None


# Clusters.


@pytest.mark.slow
def test_jobs_on_a_dask_cluster(trained, tracker, configs, run, child_environment, tmp_path):
    distributed = pytest.importorskip("distributed")
    port, log = free_port(), (tmp_path / "dask.log").open("w")
    scheduler = ["-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--no-dashboard", "--port", str(port)]
    worker = ["-m", "distributed.cli.dask_worker", "--nthreads", "1", "--no-nanny", "--no-dashboard"]
    address = f"tcp://127.0.0.1:{port}"
    dask = Parallel("dask", address=address)
    with log, started(scheduler, child_environment, output=log), contextlib.ExitStack() as stack:
        with distributed.Client(address, timeout=60, set_as_default=False), pytest.raises(InputError, match="workers"):
            run(configs(), dask)
        for name in ("one", "two"):
            command = [*worker, "--local-directory", str(tmp_path / name), address]
            stack.enter_context(started(command, child_environment, output=log))
        with distributed.Client(address, timeout=60, set_as_default=False) as client:
            client.wait_for_workers(2, timeout=120)
        batch = run(configs("strategy=simpleshot,laplacianshot", "shot=1,3"), dask)
    assert (batch.computed, batch.failures) == (4, [])


def test_a_scheduler_that_is_not_there_is_said(trained, tracker, configs, run, monkeypatch):
    pytest.importorskip("distributed")
    monkeypatch.setattr("runs.parallel.SECONDS", 0.5)
    with pytest.raises(InputError, match="dask scheduler"):
        run(configs(), Parallel("dask", address=f"tcp://127.0.0.1:{free_port()}"))


@pytest.mark.slow
def test_jobs_by_submitit(trained, tracker, configs, run):
    pytest.importorskip("submitit")
    batch = run(configs("shot=1,3"), Parallel("submitit", options={"timeout_min": 5}))
    assert (batch.computed, batch.failures) == (2, [])
    with pytest.raises(InputError, match="nonsense"):
        run(configs("shot=2"), Parallel("submitit", options={"nonsense": 5}))


def test_a_job_that_does_not_see_the_results_fails_and_one_writes_to_the_record_of_the_command(
    trained, tracker, configs, tmp_path, monkeypatch
):
    ((text, code),) = perform(0, configs(), Place(str(tmp_path / "absent"), folder="/"))[2]
    assert (code, "cannot access the results folder" in text) == (2, True)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://elsewhere")
    assert perform(0, configs(), Place(str(trained.root)))[1:3] == (1, [])
    assert len(runs_of(tracker, "evaluate/Tiny")) == 1


# The command line.


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("parallel.backend=threads", "loky"),
        ("parallel.n_jobs=0", "-1"),
        ("parallel.n_jobs=two", "'two'"),
        ("parallel.n_job=2", "n_jobs"),
        ("parallel.address=tcp://a:1", "backend=dask"),
        ("parallel.n_jobs=[", "not a value"),
    ],
)
def test_mistakes_of_the_command_line(word, said):
    with pytest.raises(InputError, match=said):
        Parallel.of([word])


def test_without_a_terminal_it_wants_a_yes(trained, tiny_arguments, tmp_path, capsys, monkeypatch):
    experiment = as_experiment(tmp_path / "mine.yaml", *tiny_arguments, "strategy=simpleshot")
    monkeypatch.setattr("sys.stdin", io.StringIO())
    assert main(["table", str(experiment), f"results={trained.root}", "--run-missing"]) == 2
    assert "-y" in capsys.readouterr().err
    assert main(["table", str(experiment), "parallel.n_jobs=2"]) == 2
    assert "--run-missing" in capsys.readouterr().err
    assert parse(EvaluateConfig, [f"experiment={experiment}"])
