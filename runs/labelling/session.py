"""A labelling session: answers of one or several clients, predictions from them, and what to label next."""

import threading
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from clustering.foundation.errors import InputError
from runs.labelling.answers import Answers, Given
from runs.labelling.journal import Answer, Journal, Line, NewClass, Shown
from runs.labelling.labeller import NONE, OPEN, SKIPPED, Labeller, Predicted, Snapshot
from runs.labelling.pile import Pile
from runs.own_data.own_config import name_problem
from runs.storage.locks import Say, silent

JOURNAL = "journal.jsonl"
PLACES = {"open": OPEN, "none": NONE, "skipped": SKIPPED}


class Session:
    """The state of a session. Its methods may be called by several threads.

    Args:
        pile: the items.
        labeller: labels the pile anew.
        folder: folder of the session, which this process has locked.
        classes: class names given at the start.
        batch_size: number of items of a batch.
        say: shows messages.

    Attributes:
        answers, classes: as given so far.
        batch: the items to label at present.
        predicted: the last predictions; None without any.
        curve: the audit after each step with predictions.
        problem: why the pile could not be labelled anew; None if it was.

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
        self.rows = {item: row for row, item in enumerate(pile.ids)}
        self.answers = Answers()
        self.classes, self.batch, self.curve = list[str](), list[str](), list[Shown]()
        self.problem: str | None = None
        self.predicted: Predicted | None = None
        self._audit, self._selected = set[str](), set[str]()
        self.lock = threading.RLock()
        self._stepping = threading.Lock()  # held while the pile is labelled, when answers are still saved
        self._known: tuple[int, int] | None = None  # numbers of answers and classes at the last step
        self.journal = Journal(folder / JOURNAL, say)
        for line in self.journal.lines:
            self._apply(line)
        self._check_pile(say)
        for name in classes:
            self.add_class(name)

    @property
    def stale(self) -> bool:
        """Whether answers or classes have come since the pile was last labelled."""
        return self._known != (self.answers.number, len(self.classes))

    def step(self, *, ask: bool = True) -> None:
        """Label the pile anew if it is stale, and choose the next batch if every item of this one is answered.

        If the strategy fails, `problem` says why, and the next batch is drawn at random.

        Args:
            ask: whether to choose a next batch.

        Raises:
            NotSaved: the disk is full.
        """
        with self._stepping:
            with self.lock:
                if not self.stale:
                    return
                snapshot = self.snapshot()
            if not ask:
                snapshot = snapshot._replace(batch=0)
            problem, predicted = None, self.predicted
            try:
                predicted, shown = self.labeller.step(snapshot)
            except Exception as error:  # a strategy may raise any error; the page shows it, and labelling goes on
                problem = str(error) if isinstance(error, InputError) else f"{type(error).__name__}: {error}"
                shown = self.labeller.random_step(snapshot)
            with self.lock:
                # Some items may have been answered meanwhile.
                open_ones = {item for item in shown.batch if self.answers[item].state == "open"}
                batch, drawn = ([item for item in items if item in open_ones] for items in (shown.batch, shown.drawn))
                if predicted is not None or batch:
                    self._write([shown.model_copy(update={"batch": batch, "drawn": drawn})])
                self.predicted, self.problem = predicted, problem
                self._known = snapshot.number, len(snapshot.classes)

    def close(self) -> None:
        """Close the journal, when no step is being taken."""
        with self._stepping:
            self.journal.close()

    def answer(self, client: str, given: Sequence[Given]) -> tuple[list[str], list[str]]:
        """Save answers; they are on the disk when this returns.

        An answer to an earlier version of an item than the present one is not saved, because somebody else has
        answered meanwhile. An answer that is already saved, from the same client, is confirmed again.

        Returns:
            The ids of the saved answers, and those of the others.

        Raises:
            InputError: an item or class does not exist; no answer is saved.
            NotSaved: the disk is full; no answer is saved.
        """
        with self.lock:
            saved, conflicts, lines = list[str](), list[str](), list[Answer]()
            for one in given:
                if one.id not in self.rows:
                    raise InputError(f"there is no item {one.id[:40]!r}; load the page again")
                label = one.label if one.action == "label" else None
                if one.action == "label" and label not in self.classes:
                    raise InputError(f"there is no class {label!r:.60}; add it first")
                version, entry = self.answers.versions[one.id], self.answers[one.id]
                if one.version == version and one.id not in saved:
                    lines.append(self._line(one, client, len(lines)))
                elif (entry.action, entry.label, entry.client, version - 1) != (one.action, label, client, one.version):
                    conflicts.append(one.id)
                    continue
                saved.append(one.id)
            if lines:
                self._write(lines)
            return saved, conflicts

    def undo(self, client: str, count: int = 1) -> list[str]:
        """Take back the last answers of a client that nobody has changed since; returns their items, newest first."""
        undone = list[str]()
        with self.lock:
            while len(undone) < count and (last := self.answers.last_of(client)) is not None:
                item, before = last
                again = Given(id=item, version=0, action=before.action, label=before.label)
                self._write([self._line(again, client, undo=True)])
                undone.append(item)
        return undone

    def add_class(self, name: str) -> None:
        """Add a class; one that exists is left as it is.

        Raises:
            InputError: the name is empty, too long or not printable.
            NotSaved: the disk is full.
        """
        name = name.strip()
        if problem := name_problem(name):
            raise InputError(f"the name of a class {problem}")
        with self.lock:
            if name not in self.classes:
                self._write([NewClass(name=name)])

    def snapshot(self) -> Snapshot:
        """The answers as arrays."""
        with self.lock:
            given = np.full(len(self.pile), OPEN, dtype=np.int64)
            places = {name: place for place, name in enumerate(self.classes)}
            for item, entry in self.answers.entries().items():
                if item in self.rows:
                    given[self.rows[item]] = places[entry.label] if entry.label is not None else PLACES[entry.state]
            audit, selected = (
                np.isin(np.arange(len(given)), [self.rows[item] for item in items if item in self.rows])
                for items in (self._audit, self._selected)
            )
            wanted = 0 if self._waits else self.batch_size
            snapshot = Snapshot(self.answers.number, self.pile.ids, tuple(self.classes), given, audit, audit, wanted)
            return snapshot._replace(by_hand=snapshot.answered & ~audit & ~selected)

    @property
    def _waits(self) -> bool:
        """Whether an item of the batch waits for its answer."""
        return any(self.answers[item].state == "open" for item in self.batch)

    def _line(self, given: Given, client: str, place: int = 0, *, undo: bool = False) -> Answer:
        """The line of the journal of an answer, after `place` others."""
        number, label = self.answers.number + 1 + place, given.label if given.action == "label" else None
        return Answer(number=number, id=given.id, action=given.action, label=label, client=client, undo=undo)

    def _write(self, lines: Sequence[Line]) -> None:
        self.journal.append(lines)
        for line in lines:
            self._apply(line)

    def _apply(self, line: Line) -> None:
        """Change the state by a line of the journal."""
        if isinstance(line, NewClass) and line.name not in self.classes:
            self.classes.append(line.name)
        elif isinstance(line, Answer):
            self.answers.apply(line)
        elif isinstance(line, Shown):
            self._audit = self._audit.difference(line.taken).union(line.joined)
            self._selected.update(line.taken)
            if line.audited:
                self.curve = [*(point for point in self.curve if point.labels < line.labels), line]
            if line.batch:
                self.batch = [item for item in line.batch if item in self.rows]
                self._audit.update(line.drawn)
                self._selected.update(set(line.batch).difference(line.drawn))

    def _check_pile(self, say: Say) -> None:
        """Check that the answers of an earlier start are about items of this pile."""
        lost = sum(item not in self.rows and bool(entry.label) for item, entry in self.answers.entries().items())
        if lost and not self.pile.is_folder:
            raise InputError(
                f"{self.pile.name}: has changed since this session began, so the rows of {lost:,} labels in "
                f"{self.journal.path} are unknown; restore the file, or begin another session with session=NAME"
            )
        if lost:
            say(f"{lost:,} labelled pictures are gone or changed, and their labels are not used")
