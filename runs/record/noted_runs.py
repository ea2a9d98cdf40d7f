"""The run of a training, noted beside its weights: one that was interrupted goes on in it."""

import contextlib
import json
from collections.abc import Callable
from pathlib import Path

from runs.record.tracked_run import TrackedRun
from runs.record.tracking import Tracker
from runs.storage.store import write_text


def noted_run(note: Path, name: str, tracker: Tracker, begin: Callable[[], TrackedRun]) -> TrackedRun:
    """The run that an interrupted training left, or a new one.

    Args:
        note: file that says which run it is.
        name: what a person calls it.
        begin: opens a new one.
    """
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError, RecursionError):
        run = tracker.resume(str(json.loads(note.read_text())["run"]))
        if run is not None:
            tracker.say(f"going on with the interrupted training of {name}")
            return run
    run = begin()
    write_text(note, json.dumps({"run": run.run_id}))
    return run
