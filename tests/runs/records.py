"""What a record holds, whatever became of it, and a record that holds runs of every kind."""

import importlib.util
import math
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

from runs.record.query import COMMAND, RunRow


def runs_of(tracker, experiment):
    """All runs of an experiment that were not deleted, without the parent runs of commands."""
    found = tracker.client.get_experiment_by_name(experiment)
    runs = tracker.client.search_runs([found.experiment_id]) if found else []
    return [run for run in runs if run.data.tags.get("stage") != COMMAND]


def copy_results(results, store):
    """A copy of a results folder with its record, whose runs keep their artefacts in the copy."""
    shutil.copytree(results, store.root, dirs_exist_ok=True)
    moved = (str(results), str(store.root))
    with closing(sqlite3.connect(store.database)) as record, record:
        record.execute("update runs set artifact_uri = replace(artifact_uri, ?, ?)", moved)
        record.execute("update experiments set artifact_location = replace(artifact_location, ?, ?)", moved)


def exporting():
    """The module reproduction/export.py."""
    place = Path(__file__).parents[2] / "reproduction" / "export.py"
    spec = importlib.util.spec_from_file_location("reproduction_export", place)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


BENCHMARKS = ("glyphs", "omniglot", "it's")
STATUSES = ("FINISHED", "FAILED", "KILLED", "RUNNING")


def fill(tracker):
    """Runs of every kind, in experiments of which one is deleted at the end."""
    client = tracker.client
    for i, status in enumerate([*STATUSES, *STATUSES[:1] * 4]):
        for experiment in ("evaluate/glyphs", "evaluate/glyphs_2", "train/glyphs", "evaluate/gone"):
            run = tracker.start(
                experiment,
                "laplacianshot 5w1s",
                stage="evaluation",
                key=f"{i % 3:016d}",
                params={"shot": 1, "audit": '["a", "ü\\n\t"]', "empty": "", "training": None},
                config="",
                tags={"benchmark": BENCHMARKS[i % 3], "split": "novel"},
            )
            for step in (1, 3, 2) if i == 2 else (3,):
                run.log(metrics={"loss": step / 3, "accuracy": 0.1 + 1e-17 * i, "tiny": 5e-324}, step=step)
            if i == 2:
                client.log_metric(run.run_id, "bad", math.nan)
                client.log_metric(run.run_id, "huge", -math.inf)
            if i == 5:
                client.update_run(run.run_id, name="another name")
                client.set_tag(run.run_id, "benchmark", "glyphs")
                client.delete_tag(run.run_id, "split")
                client.set_tag(run.run_id, "note", "")
            if status != "RUNNING":
                client.set_terminated(run.run_id, status, end_time=1_700_000_000_000 + i)
            if i == 6:
                client.delete_run(run.run_id)
    client.delete_experiment(tracker.experiment("evaluate/gone"))
    client.restore_run(run.run_id)  # its experiment stays deleted


def alike(ours, theirs):
    """Equal, NaN included."""
    assert [repr(row) for row in map(ordered, ours)] == [repr(row) for row in map(ordered, theirs)]


def ordered(row):
    fields = {name: getattr(row, name) for name in RunRow.__slots__}
    return {name: sorted(value.items()) if isinstance(value, dict) else value for name, value in fields.items()}
