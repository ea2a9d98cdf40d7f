"""The one way to run a stage: what is reused, shared, kept, recorded; and what becomes of a stage that fails."""

import json
from dataclasses import dataclass

import pytest
from runs.record.unrecorded import Made

from runs.config.base import identity
from runs.record.tracked_run import TrackedRun
from runs.stages.stage import Begun, Stage, Workspace, execute, plan_of
from tests.runs.records import runs_of


@dataclass(frozen=True)
class Total:
    """A sum."""

    value: float

    def save(self, path):
        path.write_text(json.dumps(self.value))

    @classmethod
    def load(cls, path):
        return cls(json.loads(path.read_text()))


@dataclass(frozen=True)
class SumStage(Stage[tuple[float, ...], Total, float]):
    """The sum of numbers, scaled."""

    kind, noun, file = "sum", "the sum", "total.json"
    load = staticmethod(Total.load)

    numbers: str
    scale: float
    done: list[str]

    @property
    def identity(self):
        return identity(self.kind, numbers=self.numbers, scale=self.scale)

    @property
    def experiment(self):
        return "sum/tests"

    @property
    def name(self):
        return f"{self.scale:g} x ({self.numbers})"

    @property
    def shared(self):
        return self.numbers

    def recorded(self, tracker, say):
        run = tracker.find(self.experiment, self.identity)
        return run and tracker.read(run.info.run_id, self.file, Total.load).value

    def prepare(self, work):
        self.done.append(f"read {self.numbers}")
        return tuple(map(float, self.numbers.split()))

    def begin(self, prepared, work):
        about = {"stage": self.kind, "identity": self.identity, "params": {}, "config": "", "tags": {}}
        return Begun(work.tracker.start(self.experiment, self.name, **about))

    def run(self, begun, prepared, work):
        self.done.append(self.name)
        return Made(Total(self.scale * sum(prepared) / (self.scale != 0)), {})

    def record(self, made, begun, work):
        begun.run.log(metrics={"total": made.content.value})

    def result(self, made, begun, work):
        return made.content.value


@pytest.fixture
def stages():
    """Makes stages that note in one list what they do."""
    done: list[str] = []

    def make(*scales, numbers="1 2"):
        return [SumStage(numbers, scale, done) for scale in scales]

    make.done = done
    return make


def test_what_is_finished_is_reused(stages, store, tracker, notes):
    work = Workspace(store, tracker, notes)
    first = stages(1, 2)
    assert [step.state for step in plan_of(first, tracker).steps] == ["to do", "to do"]
    results, failures = execute(first, work)
    assert (list(results.values()), failures) == ([3, 6], [])
    assert stages.done == ["read 1 2", "1 x (1 2)", "2 x (1 2)"], "what stages share is prepared once"
    assert [run.data.metrics["total"] for run in runs_of(tracker, "sum/tests")] == [6, 3]
    again, _ = execute(stages(1, 2, 3), work)
    assert list(again.values()) == [3, 6, 9]
    assert "reused 2, running 1" in notes
    assert stages.done[3:] == ["read 1 2", "3 x (1 2)"]
    assert [step.state for step in plan_of(stages(3), tracker).steps] == ["cached"]
    execute(stages(1), work._replace(force=True))
    assert stages.done[-1] == "1 x (1 2)"


def test_a_failure_stops_nothing_else(stages, store, tracker, notes):
    results, ((name, error),) = execute(stages(0, 1), Workspace(store, tracker, notes))
    assert list(results.values()) == [3]
    assert name == "0 x (1 2)"
    assert isinstance(error, ZeroDivisionError)
    assert "the others are kept" in notes
    assert [run.info.status for run in runs_of(tracker, "sum/tests")] == ["FINISHED", "FAILED"]


def test_what_could_not_be_recorded_is_recorded_by_the_next_command(stages, store, tracker, notes, monkeypatch):
    work = Workspace(store, tracker, notes)
    with monkeypatch.context() as patch:
        patch.setattr(TrackedRun, "artifact", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            execute(stages(1), work)
    (found,) = execute(stages(1), work)[0].values()
    assert found == 3
    assert stages.done.count("1 x (1 2)") == 1
    assert "recording it" in notes
    assert not list(store.cache("unrecorded").iterdir())


def test_what_is_to_be_run_is_checked_before(stages, store, tracker):
    shown = []
    execute(stages(1, 2), Workspace(store, tracker), check=lambda batches: shown.extend(map(len, batches)))
    execute(stages(1, 2), Workspace(store, tracker), check=shown.extend)
    assert shown == [1, 1]
