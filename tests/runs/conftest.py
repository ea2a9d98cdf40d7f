"""A store with an empty record, and configs of seconds, for the tests of the runs."""

import os
import shutil
import sys
import warnings
from pathlib import Path

import pytest

from tests.runs.records import copy_results
from tests.runs.typed import latest, without

os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
os.environ.pop("MLFLOW_TRACKING_URI", None)
os.environ.setdefault(
    "LOKY_MAX_CPU_COUNT", "2"
)  # jobs are done in the process of the tests unless several are asked for
PROJECT = Path(__file__).resolve().parents[2]
PLUGINS = Path(__file__).resolve().parent / "plugins"
if str(PLUGINS) not in sys.path:
    sys.path.append(str(PLUGINS))


class Notes:
    """A progress that keeps what it was told."""

    def __init__(self):
        self.notes = []
        self.bars = []

    def note(self, text):
        self.notes.append(text)

    def track(self, description, total):
        from clustering.foundation.progress import quiet

        self.bars.append(description)
        return quiet.track(description, total)

    def __contains__(self, words):
        return any(words in note for note in self.notes)


@pytest.fixture
def notes():
    return Notes()


@pytest.fixture(scope="session")
def empty_record(tmp_path_factory):
    """An empty database: making one takes MLflow two seconds, copying it nothing."""
    from runs.cache import Store
    from runs.track import Tracker

    with warnings.catch_warnings():  # MLflow uses what SQLAlchemy is about to drop, while it is imported
        warnings.simplefilter("ignore")
        import mlflow.store.tracking.sqlalchemy_store  # noqa: F401
    from sqlalchemy import event
    from sqlalchemy.engine import Engine

    @event.listens_for(Engine, "connect")
    def trust_the_system(connection, _):
        """No commit waits for the disk: a killed process loses nothing by that, and no test pulls the plug."""
        connection.execute("PRAGMA synchronous = OFF")

    store = Store(tmp_path_factory.mktemp("empty"))
    store.prepare()
    # What a process leaves that is killed while MLflow makes its tables.
    store.database.with_name("mlflow.db.new").write_bytes(b"half a database")
    assert Tracker(store).client is not None
    return store.database


@pytest.fixture(autouse=True)
def no_shipped_results(tmp_path, monkeypatch):
    """Tables show the runs that a test made, not those that the project ships."""
    monkeypatch.setattr("runs.tables.shipped.PLACE", tmp_path / "no results")


@pytest.fixture
def store(tmp_path, empty_record):
    from runs.cache import Store

    made = Store(tmp_path / "results")
    made.prepare()
    shutil.copy(empty_record, made.database)
    return made


@pytest.fixture
def tracker(store, notes):
    from runs.track import Tracker

    return Tracker(store, say=notes.note)


@pytest.fixture(scope="session")
def tiny_arguments():
    """What to type for an evaluation of seconds."""
    return [
        "benchmark=tiny_plugins:Tiny",
        "training=default",
        "epochs=3",
        "batch_size=32",
        "validate_every=1",
        "validation_tasks=20",
        "milestones=[2]",
        "learning_rate=0.02",
        "noise=30.0",
        "query=5",
        "tasks=40",
        "device=cpu",
    ]


@pytest.fixture
def configs(tiny_arguments):
    """The configs of an evaluation of seconds, of simpleshot unless it is said otherwise; the last of a key counts."""
    from runs.config.configs import EvaluateConfig, parse

    def make(*more):
        return parse(EvaluateConfig, latest(*tiny_arguments, "strategy=simpleshot", *more))

    return make


@pytest.fixture(scope="session")
def results_of(tmp_path_factory, empty_record):
    """Makes a results folder by a function of store and tracker, in a copy of a cache, and gives it and what that gave;
    once for all tests of the session: copy it by `kept`, do not touch it."""
    from runs.cache import Store
    from runs.track import Tracker

    made = {}

    def make(name, work, cache=None):
        if name not in made:
            store = Store(tmp_path_factory.mktemp(name))
            store.prepare()
            shutil.copy(empty_record, store.database)
            if cache:
                shutil.copytree(cache, store.root / "cache", dirs_exist_ok=True)
            made[name] = store.root, work(store, Tracker(store))
        return made[name]

    return make


@pytest.fixture
def kept(results_of, store):
    """What some work gives, with its results in the store: the work is done once in a session."""

    def copy(name, work, cache=None):
        root, found = results_of(name, work, cache)
        copy_results(root, store)
        return found

    return copy


@pytest.fixture(scope="session")
def trained_results(results_of, tiny_arguments):
    """A results folder in which simpleshot was evaluated: with checkpoint, features, runs. Copy it, do not touch it."""
    from runs.config.configs import EvaluateConfig, parse
    from runs.stages.pipeline import evaluation

    configs = parse(EvaluateConfig, [*tiny_arguments, "strategy=simpleshot"])
    return results_of("trained", lambda store, tracker: evaluation(configs, store, tracker))[0]


@pytest.fixture
def trained(tmp_path, trained_results, store):
    """A store with checkpoint and features of the tiny training, and no runs."""
    shutil.copytree(trained_results / "cache", store.root / "cache", dirs_exist_ok=True)
    shutil.rmtree(store.cache("evaluation"))
    return store


@pytest.fixture
def evaluate(tracker, notes):
    """Evaluates on a store that has checkpoint and features."""
    from runs.stages.pipeline import evaluation

    def run(configs, **more):
        return evaluation(configs, tracker.store, tracker, progress=notes, **more)

    return run


@pytest.fixture(scope="session")
def child_environment():
    """The environment in which a child process finds the packages and the plug-ins."""
    paths = os.pathsep.join([str(PROJECT), str(PLUGINS), os.environ.get("PYTHONPATH", "")])
    return {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1", "NO_COLOR": "1"}


@pytest.fixture
def marks(tmp_path):
    folder = tmp_path / "marks"
    folder.mkdir()
    return folder


@pytest.fixture
def troubled(marks):
    """What to type for a strategy in trouble."""
    return lambda trouble, times: [
        "strategy=tiny_plugins:Troubled",
        f"trouble={trouble}",
        f"times={times}",
        f"marks={marks}",
    ]


@pytest.fixture
def grid(configs):
    """Configs of two strategies at two shots, with changes."""
    return lambda *changes: configs("strategy=simpleshot,laplacianshot", "shot=1,3", *changes)


@pytest.fixture
def tiny_tuning(tmp_path, tiny_arguments):
    """What to type for a tuning of seconds."""
    path = tmp_path / "tiny.yaml"
    path.write_text("tasks: 5\nlaplacianshot:\n- {split: validation, grid: {weight: [0.1, 0.7]}}\n")
    return [*without(tiny_arguments, "tasks"), f"tuning={path}", "strategy=laplacianshot"]


@pytest.fixture(scope="session")
def recorded_results(results_of, trained_results, tiny_arguments):
    """A results folder with the runs of two strategies at two shots, and what they gave. Copy it, do not touch it."""
    from runs.config.configs import EvaluateConfig, parse
    from runs.stages.pipeline import evaluation

    configs = parse(EvaluateConfig, ["strategy=simpleshot,laplacianshot", "shot=1,3", *tiny_arguments])
    return results_of("recorded", lambda *where: evaluation(configs, *where), trained_results / "cache")


@pytest.fixture
def recorded(trained, recorded_results):
    """A store with the four runs of the grid at seed 0."""
    root, results = recorded_results
    copy_results(root, trained)
    return {(r.config.strategy.name, f"{r.config.sampler.options['shot']}-shot"): r for r in results}


@pytest.fixture(scope="session")
def report(recorded_results, tmp_path_factory):
    """The first page of the site of these results, the experiment `tiny` among its tables; no test changes it."""
    from runs.cache import Store
    from runs.report.site import build_report
    from runs.track import Tracker

    root, results = recorded_results
    store = Store(tmp_path_factory.mktemp("site"))
    copy_results(root, store)
    return build_report(store, Tracker(store), experiments={"tiny": [result.config for result in results]})


@pytest.fixture
def blank_pictures(monkeypatch):
    """Figures are saved as their titles alone: a PDF takes a second. Saving is tested in test_figure_style."""

    def save(figure, path, *, title="", about=""):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{title}\n{about}")
        return path

    monkeypatch.setattr("runs.figures.style.save", save)


@pytest.fixture
def classified(here, store, capsys):
    """Call `transduce classify` in the folder `here` of a test file, which ends with the code; return its output."""
    from runs.cli import main

    def call(*words, ends=0):
        code, seen = main(["classify", f"results={store.root}", *words]), capsys.readouterr()
        assert code == ends, seen.err
        return seen

    return call


@pytest.fixture
def refused(tmp_path, capsys):
    """Types a command that is refused in one line, which it gives; the folder of the test is left as it is."""
    from runs.cli import main

    def call(*words):
        before = sorted(tmp_path.rglob("*"))
        assert main(list(words)) == 2
        out, err = capsys.readouterr()
        assert (out, len(err.splitlines())) == ("", 1)
        assert sorted(tmp_path.rglob("*")) == before
        return err

    return call
