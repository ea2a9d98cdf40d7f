"""A labelling session: answers of one or several clients, predictions from them, and what to label next."""

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from clustering.foundation.errors import InputError
from fsl.labelling.audit import audit_order
from runs.labelling.answers import ACTIONS, STATES, Answers, Given
from runs.labelling.journal import Journal, Line
from runs.labelling.label_config import LONGEST_NAME
from runs.labelling.pile import Pile
from runs.labelling.predictions import UNKNOWN, Labeller, Predicted
from runs.labelling.steps import NONE, SKIPPED, Audited, Snapshot, Step, next_step, random_step
from runs.storage.locks import Say, silent

JOURNAL = "journal.jsonl"
RETRY = 5.0  # seconds until a step is taken again that could not be saved
PLACES = {"open": UNKNOWN, "none": NONE, "skipped": SKIPPED}


class Session:
    """The state of a session. Its methods may be called by several threads.

    Args:
        pile: the items.
        labeller: labels the pile anew.
        folder: folder of the session, which this process has locked.
        classes: class names given at the start.
        batch_size: number of items of a batch.
        say: shows messages.

    Raises:
        InputError: the journal is damaged, or belongs to another content of the file.
    """

    def __init__(
        self,
        pile: Pile,
        labeller: Labeller,
        folder: Path,
        *,
        classes: Sequence[str] = (),
        batch_size: int = 10,
        say: Say = silent,
    ) -> None:
        self.pile, self.labeller, self.folder, self.batch_size = pile, labeller, folder, batch_size
        self.answers = Answers()
        self.classes: list[str] = []
        self.problem: str | None = None
        self.predicted: Predicted | None = None
        self.rows = {item: row for row, item in enumerate(pile.ids)}
        self._order = audit_order(len(pile), labeller.seed)
        self.batch: list[str] = []
        self._audit: set[str] = set()
        self._selected: set[str] = set()
        self.curve: list[Audited] = []
        self.lock = threading.RLock()
        self._wake = threading.Condition(self.lock)
        self._wanted, self._working, self.closed = True, False, False
        self.journal = Journal(folder / JOURNAL, say)
        for line in self.journal.lines:
            self._replay(line)
        self._check_pile(say)
        for name in classes:
            if name not in self.classes:
                self.add_class(name)
        self._worker = threading.Thread(target=self._work, name="labelling", daemon=True)

    def start(self) -> None:
        """Start to label in another thread."""
        self._worker.start()

    def label_now(self) -> None:
        """Label the pile in this thread, without a next batch."""
        self._take_step(self.snapshot()._replace(batch=0))

    def stop(self) -> None:
        """Wait until the present step ends; no other begins."""
        with self._wake:
            self.closed = True
            self._wake.notify_all()
        if self._worker.is_alive():
            self._worker.join()

    def close(self) -> None:
        """Stop, and close the journal."""
        self.stop()
        self.journal.close()

    @property
    def working(self) -> bool:
        """Whether the pile is being labelled anew."""
        return self._wanted or self._working

    def picture(self, item: str) -> str | None:
        """The file of an item's picture; None if there is no such item, or it has none."""
        row = self.rows.get(item)
        return None if row is None else self.pile.pictures[row]

    def answer(self, client: str, given: Sequence[Given]) -> tuple[list[str], list[str]]:
        """Save answers; they are on the disk when this returns.

        An answer to an earlier version of an item than the present one is not saved, because somebody else has
        answered meanwhile. An answer that is already saved, from the same client, is confirmed again.

        Returns:
            The ids of the saved answers, and those of the others.

        Raises:
            InputError: an item, class or action does not exist; no answer is saved.
            NotSaved: the disk is full; no answer is saved.
        """
        with self.lock:
            saved, conflicts, lines = list[str](), list[str](), list[Line]()
            for answer in given:
                self._check(answer)
                entry = self.answers[answer.id]
                wanted = (STATES[answer.action], answer.label if answer.action == "label" else None)
                again = (entry.state, entry.label, entry.client, entry.version - 1) == (*wanted, client, answer.version)
                if answer.version == entry.version and answer.id not in saved:
                    lines.append(self._line(answer.id, answer.action, wanted[1], client, len(lines)))
                elif not again:
                    conflicts.append(answer.id)
                    continue
                saved.append(answer.id)
            self._save(lines)
            return saved, conflicts

    def undo(self, client: str) -> str | None:
        """Take back the last answer of a client that nobody has changed since; returns its item, None without one."""
        with self.lock:
            last = self.answers.last_of(client)
            if last is None:
                return None
            item, before = last
            self._save([self._line(item, ACTIONS[before.state], before.label, client, 0, undo=True)])
            return item

    def add_class(self, name: str) -> None:
        """Add a class; one that exists is left as it is.

        Raises:
            InputError: the name is empty or too long.
            NotSaved: the disk is full.
        """
        name = name.strip()
        if not name or len(name) > LONGEST_NAME or not name.isprintable():
            raise InputError(f"the name of a class must have 1 to {LONGEST_NAME} printable characters")
        with self.lock:
            if name not in self.classes:
                self.journal.append([{"kind": "class", "name": name}])
                self.classes.append(name)

    def snapshot(self) -> Snapshot:
        """The answers as arrays."""
        with self.lock:
            given = np.full(len(self.pile), UNKNOWN, dtype=np.int64)
            places = {name: place for place, name in enumerate(self.classes)}
            for item, entry in self.answers.entries().items():
                if item in self.rows:
                    given[self.rows[item]] = places[entry.label] if entry.label is not None else PLACES[entry.state]
            audit = np.zeros(len(self.pile), dtype=bool)
            audit[[self.rows[item] for item in self._audit if item in self.rows]] = True
            selected = np.zeros(len(self.pile), dtype=bool)
            selected[[self.rows[item] for item in self._selected if item in self.rows]] = True
            answered = np.isin(given, (UNKNOWN, SKIPPED), invert=True)
            complete = not any(self.answers[item].state == "open" for item in self.batch)
            batch = self.batch_size if complete else 0
            by_hand = answered & ~audit & ~selected
            return Snapshot(self.answers.number, tuple(self.classes), given, audit, by_hand, batch)

    def _check(self, answer: Given) -> None:
        if answer.id not in self.rows:
            raise InputError(f"there is no item {answer.id[:40]!r}; load the page again")
        if answer.action not in STATES:
            raise InputError(f"there is no action {answer.action[:40]!r}; the actions are {', '.join(STATES)}")
        if answer.action == "label" and answer.label not in self.classes:
            raise InputError(f"there is no class {answer.label!r:.60}; add it first")

    def _line(self, item: str, action: str, label: str | None, client: str, place: int, *, undo: bool = False) -> Line:
        return {
            "kind": "answer",
            "number": self.answers.number + 1 + place,
            "id": item,
            "title": self.pile.titles[self.rows[item]],
            "action": action,
            "label": label,
            "client": client,
            "undo": undo,
        }

    def _save(self, lines: Sequence[Line]) -> None:
        """Write answers, apply them, and label anew if the batch is complete, or other items have changed."""
        if not lines:
            return
        for line in self.journal.append(lines):
            self.answers.apply(line)
        outside = any(line["id"] not in self.batch for line in lines)
        if outside or not any(self.answers[item].state == "open" for item in self.batch):
            self._wanted = True
            self._wake.notify_all()

    def _replay(self, line: Line) -> None:
        if line["kind"] == "class" and line["name"] not in self.classes:
            self.classes.append(line["name"])
        elif line["kind"] == "answer":
            self.answers.apply(line)
        elif line["kind"] == "shown":
            self._show(line)

    def _show(self, line: Mapping[str, Any]) -> None:
        """Take a step over from its line of the journal."""
        self._audit = self._audit.difference(line["taken"]).union(line.get("joined", ()))
        self._selected.update(line["taken"])
        if line["audited"]:
            self.curve = [point for point in self.curve if point.labels < line["labels"]]
            self.curve.append(Audited(*(line.get(name, 0) for name in Audited._fields)))
        if line["items"]:
            self.batch = [item for item, *_ in line["items"] if item in self.rows]
            for item, _, _, audit in line["items"]:
                (self._audit if audit else self._selected).add(item)

    def _check_pile(self, say: Say) -> None:
        """Compare the pile with that of the last start."""
        last = next((line for line in reversed(self.journal.lines) if line["kind"] == "pile"), None)
        now = {"kind": "pile", "fingerprint": self.pile.fingerprint, "items": len(self.pile), "name": self.pile.name}
        if last is not None and last["fingerprint"] == now["fingerprint"]:
            return
        if last is not None and not self.pile.is_folder:
            raise InputError(
                f"{self.pile.name}: has changed since this session began ({last['items']:,} rows then, "
                f"{len(self.pile):,} now), so the rows of its {self.answers.number:,} answers in {self.journal.path} "
                "are unknown; restore the file, or begin another session with session=NAME"
            )
        lost = [item for item, entry in self.answers.entries().items() if item not in self.rows and entry.label]
        if last is not None:
            words = f"the pile has changed: {last['items']:,} pictures at the last start, {len(self.pile):,} now"
            gone = (
                f"; {len(lost):,} labelled pictures are gone or changed, and their labels are not used" if lost else ""
            )
            say(words + gone)
        self.journal.append([now])

    def _work(self) -> None:
        while True:
            with self._wake:
                self._wake.wait_for(lambda: self._wanted or self.closed)
                if self.closed:
                    return
                self._wanted, self._working = False, True
                snapshot = self.snapshot()
            self._take_step(snapshot)

    def _take_step(self, snapshot: Snapshot) -> None:
        problem, retry = None, False
        try:
            try:
                step = next_step(self.labeller, snapshot, self._order)
            except Exception as error:  # a strategy may raise any error; the page shows it, and labelling goes on
                problem = str(error) if isinstance(error, InputError) else f"{type(error).__name__}: {error}"
                step = random_step(snapshot, self.predicted, self.labeller.seed)
            with self.lock:
                self._install(step)
        except InputError as error:  # the disk is full
            problem, retry = str(error), True
        with self._wake:
            self.problem = problem
            if retry and not self.closed:
                self._wake.wait(RETRY)
            self._working, self._wanted = False, self._wanted or retry

    def _install(self, step: Step) -> None:
        """Show the result of a step."""
        ids = self.pile.ids
        items = []
        for row in step.batch:
            if self.answers[ids[row]].state == "open":
                label, probability = (None, None) if step.predicted is None else step.predicted.label(row)
                items.append([ids[row], label, probability, row in step.audit])
        line = {
            "kind": "shown",
            **(step.audited or Audited(0, 0, 0, len(ids)))._asdict(),
            "taken": [ids[row] for row in sorted(step.taken)],
            "joined": [ids[row] for row in sorted(step.joined)],
            "items": items,
        }
        if step.predicted is not None or items:
            self.journal.append([line])
            self._show(line)
        self.predicted = step.predicted
        if step.batch and not items:
            self._wanted = True
