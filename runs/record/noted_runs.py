"""The id of a training's run, stored beside its weights, so that an interrupted training resumes its run."""

import contextlib
import json
from collections.abc import Callable
from pathlib import Path

from runs.record.tracked_run import TrackedRun
from runs.record.tracking import Tracker
from runs.storage.store import write_text


def noted_run(note: Path, name: str, tracker: Tracker, begin: Callable[[], TrackedRun]) -> TrackedRun:
    """Return the run of an interrupted training, or a new run.

    Args:
        note: file that contains the id of the run.
        name: name of the training in messages.
        begin: creates a new run.
    """
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError, RecursionError):
        run = tracker.resume(str(json.loads(note.read_text())["run"]))
        if run is not None:
            tracker.say(f"resuming the interrupted training of {name}")
            return run
    run = begin()
    write_text(note, json.dumps({"run": run.run_id}))
    return run
