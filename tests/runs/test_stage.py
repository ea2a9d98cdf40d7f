"""The one way to run a stage: what is reused, shared, cached, recorded; and what becomes of a stage that fails."""

import dataclasses
import json
import threading
from dataclasses import dataclass
from types import SimpleNamespace

import pytest

from runs.cache import Store, key
from runs.record.query import PARENT, read_runs
from runs.record.tracked_run import DataUsed, TrackedRun
from runs.stages.stage import Computed, Stage, Workspace, execute
from runs.track import Tracker
from tests.runs.records import runs_of


def config_of(scale):
    return SimpleNamespace(to_yaml=lambda: "numbers: 1 2\n", flat=lambda: {"numbers": "1 2"}, scale=scale)


@pytest.fixture(autouse=True)
def params(monkeypatch):
    monkeypatch.setattr("runs.stages.stage.set_values", lambda config: {"scale": config.scale})


@dataclass(frozen=True, kw_only=True)
class SumStage(Stage):
    """The sum of numbers, scaled."""

    kind, artifacts = "sum", ("total.json",)

    numbers: str
    scale: float
    done: list[str]

    def prepare(self, work):
        self.done.append(f"read {self.numbers}")
        return tuple(map(float, self.numbers.split()))

    def compute(self, run, prepared, work):
        self.done.append(self.name)
        total = self.scale * sum(prepared) / (self.scale != 0)
        return Computed(total, {"total": total}, {"way": 5}, {"other/0": "f"}, [DataUsed("numbers", "all", "abc")])

    def save(self, content, folder):
        (folder / "total.json").write_text(json.dumps(content))

    def load(self, entry):
        return json.loads((entry.path / "total.json").read_text())

    def result(self, content, entry, run_id):
        return content


@pytest.fixture
def stages():
    """Makes stages that note in one list what they do."""
    done: list[str] = []

    def one(numbers, scale):
        made = {"key": key("sum", {"numbers": numbers, "scale": scale}, {}, {}), "name": f"{scale:g} x ({numbers})"}
        own = {"numbers": numbers, "scale": scale, "done": done}
        return SumStage(config=config_of(scale), experiment="sum/tests", shared=numbers, **made, **own)

    def make(*scales, numbers="1 2"):
        return [one(numbers, scale) for scale in scales]

    make.done = done
    return make


def test_what_is_finished_is_reused(stages, store, tracker, notes):
    work = Workspace(store, tracker, notes)
    first = stages(1, 2)
    assert not any(store.peek("sum", stage.key) for stage in first)
    results, failures = execute(first, work)
    assert (list(results.values()), failures) == ([3, 6], [])
    assert stages.done == ["read 1 2", "1 x (1 2)", "2 x (1 2)"], "what stages share is prepared once"
    assert [run.data.metrics["total"] for run in runs_of(tracker, "sum/tests")] == [6, 3]
    again, _ = execute(stages(1, 2, 3), work)
    assert list(again.values()) == [3, 6, 9]
    assert "reused 2, running 1" in notes
    assert stages.done[3:] == ["read 1 2", "3 x (1 2)"]
    assert store.peek("sum", stages(3)[0].key)
    execute(stages(1), work._replace(force=True))
    assert stages.done[-1] == "1 x (1 2)"


@pytest.mark.parametrize("method", ["log", "data", "artifact", "finish"])
def test_what_could_not_be_recorded_is_recorded_by_the_next_command(stages, store, tracker, monkeypatch, method):
    work = Workspace(store, tracker)
    real = getattr(TrackedRun, method)

    def broken(run, *given, **more):
        if "way" in (more.get("tags") or {}) or method != "log":
            raise ZeroDivisionError
        return real(run, *given, **more)

    with monkeypatch.context() as patch:
        patch.setattr(TrackedRun, method, broken)
        with pytest.raises(ZeroDivisionError):
            execute(stages(1), work)
    (found,) = execute(stages(1), work)[0].values()
    assert found == 3
    assert stages.done.count("1 x (1 2)") == 1, "it is in the cache"
    assert [run.info.status for run in runs_of(tracker, "sum/tests")] == ["FINISHED"]


def test_a_run_of_a_killed_process_is_marked_but_not_one_that_works(stages, store, tracker, notes):
    dead, alive = stages(1, 2)
    about = {"stage": "sum", "params": {}}
    tracker.start("sum/tests", "dead", key=dead.key, **about)
    tracker.start("sum/tests", "alive", key=alive.key, **about)
    with store.lock("sum", alive.key, "the sum"):
        execute(stages(3), Workspace(store, tracker))
    states = {run.info.run_name: run.info.status for run in runs_of(tracker, "sum/tests")}
    assert states == {"dead": "KILLED", "alive": "RUNNING", "3 x (1 2)": "FINISHED"}
    assert "marked as KILLED: dead" in notes


def test_a_run_that_was_killed_before_its_settings_were_recorded_gets_them(stages, store, tracker):
    (stage,) = (dataclasses.replace(one, tags={"cell": "abc"}) for one in stages(2))
    tracker.start("sum/tests", stage.name, stage="sum", key=stage.key, params={})
    execute([stage], Workspace(store, tracker))
    (run,) = runs_of(tracker, "sum/tests")
    assert (run.data.tags["cell"], run.data.params) == ("abc", {"scale": "2"})
    assert tracker.download(run.info.run_id, "config.yaml", store.root)


def test_runs_of_another_results_folder_are_left_alone(stages, store, tracker, tmp_path, monkeypatch):
    """Two machines may have the same name and the same paths: a random id tells their folders apart."""
    uri = f"sqlite:///{store.database}"
    other = Tracker(Store(tmp_path / "other"), uri=uri)
    other.store.prepare()
    other.start("sum/tests", "theirs", stage="sum", key=stages(1)[0].key, params={})
    execute(stages(1), Workspace(store, Tracker(store, uri=uri)))
    states = {run.info.run_name: run.info.status for run in runs_of(other, "sum/tests")}
    assert states == {"theirs": "RUNNING", "1 x (1 2)": "FINISHED"}


def test_two_commands_at_once_compute_a_result_once(stages, store, tracker, monkeypatch):
    begun, real = threading.Event(), SumStage.compute

    def slow(stage, run, prepared, work):
        begun.set()
        threading.Event().wait(0.5)  # the other one waits for the lock
        return real(stage, run, prepared, work)

    monkeypatch.setattr(SumStage, "compute", slow)
    first = threading.Thread(target=execute, args=(stages(1), Workspace(store, tracker)))
    second = threading.Thread(target=execute, args=(stages(1), Workspace(store, tracker)))
    first.start()
    assert begun.wait(60)
    second.start()
    first.join(60)
    second.join(60)
    assert stages.done.count("1 x (1 2)") == 1
    assert [run.info.status for run in runs_of(tracker, "sum/tests")] == ["FINISHED"]


def test_an_experiment_and_a_parent_run_of_the_user(stages, store, tracker, monkeypatch):
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "mine")
    monkeypatch.setenv("MLFLOW_RUN_ID", "f" * 32)
    execute(stages(1, 2), Workspace(store, tracker))
    execute(stages(1, 2), Workspace(store, tracker))
    runs = runs_of(tracker, "mine")
    assert [run.data.tags[PARENT] for run in runs] == ["f" * 32] * 2
    assert {row.run_id for row in read_runs(tracker, "sum/")} == {run.info.run_id for run in runs}
    assert read_runs(tracker, "other/") == []
