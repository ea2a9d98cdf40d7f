"""A labelling session: answers of one or several clients, predictions from them, and what to label next."""

import threading
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from clustering.foundation.errors import InputError
from runs.labelling.journal import Accuracy, Answers, Batch, Given, Journal, Line, NewClass, Undo
from runs.labelling.labeller import NONE, OPEN, SKIPPED, Labeller, Predicted, Snapshot
from runs.labelling.pile import Pile
from runs.own_data.own_config import name_problem
from runs.storage.locks import Say, silent

JOURNAL = "journal.jsonl"
PLACES = {"clear": OPEN, "none": NONE, "skip": SKIPPED}
NO_ANSWER = Given(id="", version=0, action="clear")


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
        classes: as given so far.
        versions: number of answers to each item, undone ones and those that undid them included.
        batch: the items to label at present.
        predicted, accuracy: of the last step with any; None before.
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
        self.classes, self.batch, self.versions = list[str](), list[str](), Counter[str]()
        self.problem: str | None = None
        self.predicted: Predicted | None = None
        self.accuracy: Accuracy | None = None
        self._answers: defaultdict[str, list[tuple[Answers, Given]]] = defaultdict(list)  # of an item, last in force
        self._lines: defaultdict[str, list[Answers]] = defaultdict(list)  # of a client
        self._audited, self._selected = set[str](), set[str]()
        self._known: tuple[int, int] | None = None  # numbers of answers and classes at the last step
        self.lock = threading.RLock()
        self._stepping = threading.Lock()  # held while the pile is labelled, when answers are still saved
        self.journal = Journal(folder / JOURNAL, say)
        for line in self.journal.lines:
            self._apply(line)
        self._check_pile(say)
        for name in classes:
            self.add_class(name)

    @property
    def number(self) -> int:
        """Number of all answers."""
        return self.versions.total()

    @property
    def stale(self) -> bool:
        """Whether answers or classes have come since the pile was last labelled."""
        return self._known != (self.number, len(self.classes))

    def answer_to(self, item: str) -> Given:
        """The answer to an item that is in force; `NO_ANSWER` without one."""
        return self._answers[item][-1][1] if self._answers.get(item) else NO_ANSWER

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
                snapshot = self.snapshot(ask=ask)
            problem, predicted = None, self.predicted
            try:
                predicted, batch = self.labeller.step(snapshot)
            except Exception as error:  # a strategy may raise any error; the page shows it, and labelling goes on
                problem = str(error) if isinstance(error, InputError) else f"{type(error).__name__}: {error}"
                batch = self.labeller.random_batch(snapshot)
            with self.lock:
                # Some items may have been answered meanwhile.
                items, drawn = (list(filter(self._is_open, part)) for part in (batch.items, batch.drawn))
                if batch.items or batch.accuracy:
                    self._write(batch.model_copy(update={"items": items, "drawn": drawn}))
                self.predicted, self.problem = predicted, problem
                self._known = snapshot.number, len(snapshot.classes)

    def close(self) -> None:
        """Close the journal, when no step is being taken."""
        with self._stepping:
            self.journal.close()

    def answer(self, client: str, given: Sequence[Given]) -> list[str]:
        """Save answers; they are on the disk when this returns.

        An answer to an earlier version of an item than the present one is not saved, because somebody else has
        answered meanwhile. An answer that is already saved, from the same client, is confirmed again.

        Returns:
            The ids of answers that are not saved.

        Raises:
            InputError: an item or class does not exist; no answer is saved.
            NotSaved: the disk is full; no answer is saved.
        """
        with self.lock:
            new, conflicts = dict[str, Given](), list[str]()
            for one in given:
                if one.id not in self.rows:
                    raise InputError(f"there is no item {one.id[:40]!r}; load the page again")
                if one.label is not None and one.label not in self.classes:
                    raise InputError(f"there is no class {one.label!r:.60}; add it first")
                if one.version == self.versions[one.id] and one.id not in new:
                    new[one.id] = one
                elif (client, one) not in [(line.client, same) for line, same in self._answers[one.id][-1:]]:
                    conflicts.append(one.id)
            if new:
                self._write(Answers(client=client, answers=list(new.values())))
            return conflicts

    def undo(self, client: str) -> list[str]:
        """Take back the last answers that a client gave at once and nobody has changed since; returns their items."""
        with self.lock:
            items = self._last_of(client)
            if items:
                self._write(Undo(client=client))
            return items

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
                self._write(NewClass(name=name))

    def snapshot(self, *, ask: bool = True) -> Snapshot:
        """The answers as arrays; without `ask`, no next batch is wanted."""
        with self.lock:
            given = np.full(len(self.pile), OPEN, dtype=np.int64)
            places = {name: place for place, name in enumerate(self.classes)}
            for item in self._answers.keys() & self.rows.keys():
                one = self.answer_to(item)
                given[self.rows[item]] = PLACES[one.action] if one.label is None else places[one.label]
            audit, selected = (
                np.isin(np.arange(len(given)), [self.rows[item] for item in items & self.rows.keys()])
                for items in (self._audited, self._selected)
            )
            wanted = self.batch_size if ask and not any(map(self._is_open, self.batch)) else 0
            now = Snapshot(self.number, self.pile.ids, tuple(self.classes), given, audit, audit, wanted)
            return now._replace(by_hand=now.answered & ~audit & ~selected)

    def _is_open(self, item: str) -> bool:
        return self.answer_to(item).action == "clear"

    def _last_of(self, client: str) -> list[str]:
        """The items whose answers `undo` takes back."""
        for line in reversed(self._lines[client]):
            items = [one.id for one in line.answers]
            if last := [item for item in items if self._answers[item] and self._answers[item][-1][0] is line]:
                return last
        return []

    def _write(self, line: Line) -> None:
        self.journal.append(line)
        self._apply(line)

    def _apply(self, line: Line) -> None:
        """Change the state by a line of the journal."""
        if isinstance(line, NewClass):
            self.classes.append(line.name)
        elif isinstance(line, Answers):
            self._lines[line.client].append(line)
            for one in line.answers:
                self._answers[one.id].append((line, one))
                self.versions[one.id] += 1
        elif isinstance(line, Undo):
            for item in self._last_of(line.client):
                self._answers[item].pop()
                self.versions[item] += 1
        elif isinstance(line, Batch):
            self._audited = self._audited.difference(line.taken).union(line.joined, line.drawn)
            self._selected |= {*line.taken, *line.items} - {*line.drawn}
            self.batch = [item for item in line.items if item in self.rows] or self.batch
            self.accuracy = line.accuracy or self.accuracy

    def _check_pile(self, say: Say) -> None:
        """Check that the answers of an earlier start are about items of this pile."""
        lost = sum(item not in self.rows and self.answer_to(item).label is not None for item in self._answers)
        if lost and not self.pile.is_folder:
            raise InputError(
                f"{self.pile.name}: has changed since this session began, so the rows of {lost:,} labels in "
                f"{self.journal.path} are unknown; restore the file, or begin another session with session=NAME"
            )
        if lost:
            say(f"{lost:,} labelled pictures are gone or changed, and their labels are not used")
