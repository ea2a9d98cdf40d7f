"""The state of every item of a pile, as the answers given so far leave it."""

from collections import defaultdict
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

State = Literal["open", "labelled", "none", "skipped"]
Action = Literal["label", "none", "skip", "clear"]
STATES: Mapping[str, State] = {"label": "labelled", "none": "none", "skip": "skipped", "clear": "open"}
"""The state after each action: `none` if the item belongs to no class, `skip` if it is to be shown no more."""
ACTIONS: Mapping[State, Action] = {"labelled": "label", "none": "none", "skipped": "skip", "open": "clear"}


class Given(NamedTuple):
    """One answer of a client.

    Attributes:
        id: the item.
        version: the version of the item that the client saw.
        action: label, none, skip or clear.
        label: the class, for the action label.
    """

    id: str
    version: int
    action: str
    label: str | None = None


class Entry(NamedTuple):
    """The state of one item.

    Attributes:
        version: number of answers to this item.
        state: its state.
        label: its class if it is labelled.
        client: the client of the last answer.
    """

    version: int = 0
    state: State = "open"
    label: str | None = None
    client: str = ""


class _Made(NamedTuple):
    """An answer that can be taken back: the item, its entry before, and its version after."""

    id: str
    before: Entry
    version: int


class Answers:
    """Entries of items, and what each client can take back.

    Attributes:
        number: number of all answers.
        times: time of each answer, in seconds since 1970, and the number of labelled items after it.
    """

    def __init__(self) -> None:
        self.number = 0
        self.times: list[tuple[float, int]] = []
        self._entries: dict[str, Entry] = {}
        self._labelled = 0
        self._made: defaultdict[str, list[_Made]] = defaultdict(list)

    def __getitem__(self, item: str) -> Entry:
        return self._entries.get(item, _UNTOUCHED)

    def entries(self) -> Mapping[str, Entry]:
        """The items with an answer."""
        return self._entries

    def apply(self, line: Mapping[str, Any]) -> Entry:
        """Apply an answer, given as a line of the journal."""
        before, item, client = self[line["id"]], line["id"], line["client"]
        entry = Entry(before.version + 1, STATES[line["action"]], line["label"], client)
        self._labelled += (entry.state == "labelled") - (before.state == "labelled")
        self._entries[item] = entry
        self.number += 1
        self.times.append((float(line["time"]), self._labelled))
        if not line["undo"]:
            self._made[client].append(_Made(item, before, entry.version))
        else:
            self._take_back(item, client, entry.version)
        return entry

    def _take_back(self, item: str, client: str, version: int) -> None:
        """Forget the last answer of a client to an item; its answer before that, if it is in force again, can be taken
        back next."""
        made = self._made[client]
        while made and (last := made.pop()).id != item:
            pass
        for place, earlier in enumerate(made):
            if earlier.id == item and earlier.version == last.before.version:
                made[place] = earlier._replace(version=version)

    def last_of(self, client: str) -> tuple[str, Entry] | None:
        """The item of a client's last answer that nobody has changed since, and its entry before; None without one."""
        for made in reversed(self._made[client]):
            if self[made.id].version == made.version:
                return made.id, made.before
        return None


_UNTOUCHED = Entry()
