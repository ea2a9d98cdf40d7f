"""Results that wait for their record, and those that do so no longer."""

import pytest
from runs.record.unrecorded import Unrecorded

from tests.runs.test_tracking import start

IDENTITY = "a" * 16


@pytest.fixture
def kept(store, tracker):
    """Keeps a result of a run."""

    def keep(finished):
        run = start(tracker, identity=IDENTITY)
        result = Unrecorded(store, "evaluation", IDENTITY)
        result.keep("result.txt", lambda path: path.write_text("7") and None, run.run_id)
        if finished:
            run.finish()
        return result

    return keep


def load(path):
    return int(path.read_text())


def test_a_result_whose_run_is_finished_is_removed_by_the_owner_of_its_lock(kept, store, tracker):
    result = kept(finished=True)
    with store.lock("evaluation", IDENTITY, "it"):
        assert not result.pending(tracker)
        assert store.peek("unrecorded", f"evaluation-{IDENTITY}"), "somebody else holds the lock"
        assert result.find("result.txt", load, tracker, force=False) is None
    assert store.peek("unrecorded", f"evaluation-{IDENTITY}") is None


@pytest.mark.parametrize("finished", [True, False])
def test_what_nobody_asks_for_again_goes_with_the_next_command(kept, store, tracker, finished):
    kept(finished)
    tracker.mark_orphans_killed("train/")
    assert store.peek("unrecorded", f"evaluation-{IDENTITY}")
    tracker.mark_orphans_killed()
    assert (store.peek("unrecorded", f"evaluation-{IDENTITY}") is None) == finished
