"""Sessions of labelling: answers on disk, several clients, the audit."""

import json
import os
import threading

import numpy as np
import pytest

from clustering.foundation.errors import InputError
from fsl.labelling.audit import estimated_accuracy
from runs.labelling import views
from runs.labelling.journal import NotSaved
from runs.labelling.views import export
from tests.runs.labelling import CLASSES, class_of, given, label, label_batches, opened, raise_full, small_pile


def reopened(session, **options):
    session.close()
    return opened(session.folder, session.pile, **options)


def test_answers_are_on_the_disk_and_a_restart_continues(tmp_path, monkeypatch):
    session = opened(tmp_path)
    synced, fsync = [], os.fsync
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", lambda handle: (synced.append(handle), fsync(handle)))
        label(session, "id-0", "id-1")
    assert synced == [session.journal._handle]
    session.answer("me", [given("id-2", 0, "none"), given("id-3", 0, "skip")])
    lines = [json.loads(line) for line in (tmp_path / "journal.jsonl").read_text().splitlines()]
    given_labels = [[one["label"] for one in line["answers"]] for line in lines if line["kind"] == "answers"]
    assert given_labels == [["cat", "dog"], [None, None]]
    before = views.state(session)
    after = views.state(reopened(session))
    assert after == before
    assert (after["labelled"], after["none"], after["skipped"], after["version"]) == (2, 1, 1, 4)


def test_a_restart_shows_the_same_batch_and_accuracy(tmp_path):
    session = opened(tmp_path)
    label_batches(session, 4)
    before = views.state(session)
    again = reopened(session)
    again.step()
    after = views.state(again)
    assert before["accuracy"].audited > 0
    for name in ("batch", "accuracy", "labelled", "classes"):
        assert after[name] == before[name]


def test_undo_takes_back_the_last_answer_of_a_client(tmp_path):
    session = opened(tmp_path)
    session.answer("a", [given("id-0", 0, "label", "cat")])
    session.answer("a", [given("id-0", 1, "label", "dog")])
    session.answer("b", [given("id-1", 0, "label", "dog")])
    session.answer("a", [given("id-2", 0, "label", "eel")])
    session.answer("b", [given("id-2", 1, "label", "cat")])
    session = reopened(session)
    assert session.undo("a") == ["id-0"]  # somebody else has answered id-2 since
    assert session.answer_to("id-0").label == "cat"
    session = reopened(session)
    assert session.undo("a") == ["id-0"]
    assert session.answer_to("id-0").action == "clear"
    assert session.undo("a") == []
    assert session.undo("b") == ["id-2"]
    assert session.answer_to("id-2").label == "eel"
    label(session, "id-3", "id-4", client="c")
    session.answer("a", [given("id-4", 1, "none")])
    assert session.undo("c") == ["id-3"]  # what was given together, but for what somebody else has changed
    assert reopened(session).versions == {"id-0": 4, "id-1": 1, "id-2": 3, "id-3": 2, "id-4": 2}


def test_an_incomplete_last_line_is_removed(tmp_path):
    session = opened(tmp_path)
    label(session, "id-0")
    label(session, "id-1")
    session.close()
    path = tmp_path / "journal.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole[:-20])
    said = []
    session = opened(tmp_path, say=said.append)
    assert "its last line was incomplete" in said[0]
    assert (session.answer_to("id-0").label, session.answer_to("id-1").action) == ("cat", "clear")
    label(session, "id-1")
    assert reopened(session).number == 2


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"label":"cat"', b'"label":"ca'),
        (b'"label":"cat"', b'"label":5'),
        (b'"label":"cat"', b'"label":null'),
        (b'"label":"cat"', b'"label":"cow"'),
        (b'"action":"label"', b'"action":"lable"'),
        (b'"action":"label"', b'"action":"skip"'),
        (b'"items":["', b'"items":[3,"'),
        (b'"kind":"answers"', b'"kind":"begin"'),
        (b'"accuracy":null', b'"accuracy":1'),
    ],
)
def test_a_damaged_line_names_file_and_line(tmp_path, old, new):
    session = opened(tmp_path)
    label(session, "id-0")
    session.step()
    session.close()
    path = tmp_path / "journal.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    place = next(i for i, line in enumerate(lines) if old in line)
    lines[place] = lines[place].replace(old, new)
    path.write_bytes(b"".join(lines))
    with pytest.raises(InputError, match=rf"journal.jsonl: line {place + 1} is not a line"):
        opened(tmp_path)
    assert path.read_bytes() == b"".join(lines)


def test_another_file_is_no_journal(tmp_path):
    (tmp_path / "journal.jsonl").write_text('{"a": 1}\n')
    with pytest.raises(InputError, match="line 1 is not a line of a journal"):
        opened(tmp_path)
    begin = {"kind": "begin", "format": "transduce labels 9", "time": 1}
    (tmp_path / "journal.jsonl").write_text(json.dumps(begin) + "\n")
    with pytest.raises(InputError, match="has the format 'transduce labels 9'"):
        opened(tmp_path)


def test_a_changed_table_is_refused_and_changed_pictures_are_reported(tmp_path):
    (tmp_path / "rows").mkdir()
    (tmp_path / "pictures").mkdir()
    label(opened(tmp_path / "rows"), "id-59")
    with pytest.raises(InputError, match="has changed since this session began, so the rows of 1 labels"):
        opened(tmp_path / "rows", small_pile(mark="other"))
    label(opened(tmp_path / "pictures", small_pile(is_folder=True)), "id-59", "id-0")
    said = []
    session = opened(tmp_path / "pictures", small_pile(50, is_folder=True), say=said.append)
    assert said == ["1 labelled pictures are gone or changed, and their labels are not used"]
    assert views.state(session)["labelled"] == 1
    assert reopened(session).answer_to("id-59").label == class_of("id-59")


def test_batches_until_the_pile_is_labelled(tmp_path):
    session = opened(tmp_path)
    seen = []
    session.step()
    while session.batch and views.state(session)["labelled"] != 60:
        seen += session.batch
        label_batches(session, 1)
    assert sorted(seen) == sorted(session.pile.ids)
    assert session.problem is None


def test_answers_of_the_audit_are_not_used_to_fit(tmp_path):
    session = opened(tmp_path)
    while not (session.snapshot().audit & session.snapshot().answered).any():
        label_batches(session, 1)
    snapshot = session.snapshot()
    audited, answered = int((snapshot.audit & snapshot.answered).sum()), int(snapshot.answered.sum())
    found, population = session.accuracy, 60 - (answered - audited)
    assert (found.audited, found.population, found.accuracy) == (audited, population, 1)
    assert found.low == estimated_accuracy([True] * audited, population).low < 1
    session.close()


def test_items_answered_by_hand_are_counted_and_join_the_audit(tmp_path):
    session = opened(tmp_path)
    label_batches(session, 2)
    order = [session.pile.ids[row] for row in session.labeller.order]
    first = next(item for item in order if item not in session.batch and session._is_open(item))
    others = [item for item in order[::-1] if item not in session.batch and session._is_open(item)][:5]
    label(session, first, *others[:4])
    session.answer("me", [given(others[4], 0, "none")])
    session.step()
    assert session.snapshot().by_hand.sum() == 6
    found, hand = session.accuracy, [True] * 5 + [False]  # none of these is no right prediction
    assert (found.audited, found.population) == (1, 60 - 19 - 6)
    assert found.low == estimated_accuracy([True], 60 - 19 - 6, by_hand=hand).low
    label_batches(session, 1)
    snapshot = session.snapshot()
    assert snapshot.audit[session.rows[first]] or first in session._selected
    before = views.state(session)["accuracy"], snapshot
    again = reopened(session)
    assert views.state(again)["accuracy"] == before[0]
    for name in ("audit", "by_hand"):
        assert (getattr(again.snapshot(), name) == getattr(snapshot, name)).all()
    again.close()


def test_members_of_a_class_are_in_the_order_that_is_asked_for(tmp_path):
    session = opened(tmp_path)
    label_batches(session, 2)

    def listed(order):
        return {item["id"] for name in CLASSES for item in views.members(session, name, order, 100)[1]}

    assert not listed("likeliest") & {*session.batch, *session.versions}
    assert len(listed("doubtful")) == 60 - len(session.batch)
    first = session.batch[0]
    label(session, first)
    assert listed("doubtful") & {*session.batch} == {first}
    for place, name in enumerate(CLASSES):
        total, items = views.members(session, name, "likeliest", 100)
        rows = [session.rows[item["id"]] for item in items]
        assert total == len(items)
        assert (np.diff(session.predicted.probabilities[rows, place]) <= 0).all()
        assert {class_of(item["id"]) for item in items} == {name}
        assert views.members(session, name, "likeliest", 2) == (total, items[:2])
    by_class = views.state(session)["classes"]
    assert [row["name"] for row in by_class] == list(CLASSES)
    assert sum(row["labelled"] for row in by_class) == 21
    assert sum(row["predicted"] for row in by_class) == 60 - 21
    session.answer("me", [given(session.batch[1], 0, "none")])
    assert [item["id"] for item in views.members(session, "", "likeliest", 10)[1]] == [session.batch[1]]
    with pytest.raises(InputError, match="no class"):
        views.members(session, "cow", "likeliest", 10)
    session.close()


def test_an_error_of_the_strategy_is_shown_and_labelling_goes_on(tmp_path, monkeypatch):
    session = opened(tmp_path)

    def broken(*arguments):
        raise RuntimeError("no convergence")

    session.step()
    monkeypatch.setattr(session.labeller, "predict", broken)
    label_batches(session, 1)
    assert views.state(session)["problem"] == "RuntimeError: no convergence"
    assert {item["state"] for item in views.state(session)["batch"]} == {"open"}
    label_batches(session, 1)
    monkeypatch.undo()
    label(session, "id-0")
    session.step()
    assert views.state(session)["problem"] is None
    session.close()


def test_a_step_that_cannot_be_saved_is_taken_again(tmp_path, monkeypatch):
    session = opened(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", raise_full)
        with pytest.raises(NotSaved, match="the disk is full"):
            session.step()
    assert (session.batch, session.stale) == ([], True)
    session.step()
    assert len(session.batch) == 10


def test_answers_are_saved_while_the_pile_is_labelled(tmp_path):
    """The next batch has no item that was answered meanwhile."""
    session, taken = opened(tmp_path), []
    step = session.labeller.step

    def slow(snapshot):
        predicted, batch = step(snapshot)
        taken.append(batch.items[0])
        thread = threading.Thread(target=label, args=(session, taken[0]))
        thread.start()
        thread.join(60)
        return predicted, batch

    session.labeller.step = slow
    session.step()
    assert session.answer_to(taken[0]).action == "label"
    assert len(session.batch) == 9
    assert session.stale


@pytest.mark.parametrize(
    ("classes", "keys"),
    [
        (["cat", "dog"], "12"),
        (["one", "two", "zero"], "120"),
        (["zero", "one"], "01"),
        (["class 0", "class 1", "class 10", "cat"], "01q2"),
        (["cat", "1", "One"], "21q"),
        ([f"c{row}x" for row in range(12)], "0123456789qw"),
        ([*"ABCDEFGHIJ"], "123456789q"),
        (["n03127925", "class 12", "2019"], "1q2"),
    ],
)
def test_a_digit_means_no_class_of_another_number(classes, keys):
    assert views.keys_of(classes) == dict(zip(classes, keys, strict=True))


def test_export_escapes_formulas(tmp_path):
    import pyarrow.parquet as parquet

    session = opened(tmp_path, classes=("=1+1", "dog"))
    session.answer("me", [given("id-0", 0, "label", "=1+1"), given("id-1", 0, "label", "dog")])
    lines = export(session, "csv").read_text().splitlines()
    assert lines[:2] == ["id,state,label,predicted,probability", "0,labelled,'=1+1,,"]
    session.step(ask=False)
    lines = export(session, "csv").read_text().splitlines()
    assert lines[0] == "id,state,label,predicted,probability,p(=1+1),p(dog)"
    assert lines[1] == "0,labelled,'=1+1,'=1+1,1.000000,1.000000,0.000000"
    table = parquet.read_table(export(session, "parquet"))
    assert table.column_names == lines[0].split(",")
    assert table["label"].to_pylist()[:3] == ["=1+1", "dog", None]
    assert np.allclose(table["probability"].to_numpy(), session.predicted.probabilities.max(axis=1))
