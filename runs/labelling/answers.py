"""The state of every item of a pile, as the answers given so far leave it."""

from collections import Counter, defaultdict

from pydantic import BaseModel, ConfigDict, Field

from runs.labelling.journal import Action, Answer


class Given(BaseModel):
    """One answer of a client.

    Attributes:
        id: the item.
        version: the version of the item that the client saw.
        action: label, none, skip or clear.
        label: the class, for the action label.
    """

    model_config = ConfigDict(extra="forbid", strict=True)

    id: str = Field(max_length=200)
    version: int = Field(ge=0)
    action: Action
    label: str | None = None


NO_ANSWER = Answer(number=0, id="", action="clear", label=None, client="")


class Answers:
    """What is known of each item, and what each client can take back.

    Attributes:
        number: number of all answers.
        versions: number of answers to each item.
    """

    def __init__(self) -> None:
        self.number = 0
        self.versions: Counter[str] = Counter()
        self._entries: defaultdict[str, list[Answer]] = defaultdict(list)  # those that are in force, the last one last
        self._made: defaultdict[str, list[tuple[str, int]]] = defaultdict(list)  # item, and its entries then, by client

    def __getitem__(self, item: str) -> Answer:
        """The answer to an item that is in force; `NO_ANSWER` without one."""
        return entries[-1] if (entries := self._entries.get(item)) else NO_ANSWER

    def entries(self) -> dict[str, Answer]:
        """The items with an answer."""
        return {item: self[item] for item in self.versions}

    def apply(self, line: Answer) -> None:
        """Apply a line of the journal."""
        entries, made = self._entries[line.id], self._made[line.client]
        if line.undo and (line.id, len(entries)) in made:
            made.remove((line.id, len(entries)))
            entries.pop()
        else:
            entries.append(line)
            made.append((line.id, len(entries)))
        self.number += 1
        self.versions[line.id] += 1

    def last_of(self, client: str) -> tuple[str, Answer] | None:
        """The item of a client's last answer that nobody has changed since, and the answer before; None without one."""
        for item, count in reversed(self._made[client]):
            entries = self._entries[item]
            if len(entries) == count:
                return item, entries[-2] if count > 1 else NO_ANSWER
        return None
