"""Messages about unknown keys: the nearest key, the option that has it, or the verb that has it."""

import difflib
from collections.abc import Callable, Iterator, Sequence

from clustering.foundation.errors import InputError, unknown
from runs.config import groups
from runs.config.base import FILES, PLACES, RunConfig, group_names, group_of, top_level
from runs.config.groups import GROUPS, Choice
from runs.config.schemas import SCHEMAS
from runs.config.source import is_mentioned


def unknown_key(
    schema: type[RunConfig],
    key: str,
    place: str,
    candidates: Sequence[Choice],
    takes_all: Callable[[type[RunConfig]], bool],
) -> InputError:
    """Return the error about an unknown key.

    Args:
        schema: the class of the verb's configs.
        key: the key.
        place: the key with its origin, such as "experiment NAME: key".
        candidates: the chosen options.
        takes_all: whether another verb accepts the whole experiment of the key.
    """
    group, _, field = key.rpartition(".")
    if group in group_names(schema):
        return _unknown_field(group, field, place, [choice for choice in candidates if choice.key == group])
    first = key.partition(".")[0]
    verbs = [verb for verb, other in SCHEMAS.items() if other is not schema and first in top_names(other)]
    if verbs:
        whole = [verb for verb in verbs if ": " in place and takes_all(SCHEMAS[verb])]
        return _of_another_verb(place, [*whole, *verbs][0], bool(whole))
    top = [*top_names(schema), "experiment"]
    bare = list(dict.fromkeys(name for choice in candidates for name in choice.options))
    dotted = [f"{choice.key}.{name}" for choice in candidates for name in choice.options]
    initials = [name for name in bare if "_" in name and key == "".join(word[0] for word in name.split("_"))]
    if initials:
        return InputError(f"unknown key {place!r}; did you mean {initials[0]!r}?")
    known = dotted if "." in key else [*top, *bare]
    if difflib.get_close_matches(key.lower(), known, n=1, cutoff=0.8):  # before all plug-ins are read
        return _nearest(key, place, known)
    own = [group_of(schema, name) for name in group_names(schema)]
    owner = next(((GROUPS[name].key, plugin) for name in own for plugin in _plugins_with(key, name)), None)
    if owner is not None:
        return _of_another_option(key, place, owner, [choice for choice in candidates if choice.key == owner[0]])
    for verb, other in SCHEMAS.items():
        others = {group_of(other, name) for name in group_names(other)}.difference(own)
        if any(True for name in others for _ in _plugins_with(key, name)):
            return _of_another_verb(place, verb)
    if difflib.get_close_matches(key.lower(), known, n=1, cutoff=0.6):
        return _nearest(key, place, known)
    return InputError(f"unknown key {place!r}; known: {', '.join(top)}, and fields of the groups (see --help)")


def _nearest(key: str, place: str, known: Sequence[str]) -> InputError:
    error = unknown("key", key, known)
    return InputError(f"{place}: {error}") if place != key else error


def top_names(schema: type[RunConfig]) -> list[str]:
    """Return the groups and the top-level keys of a schema."""
    return [*group_names(schema), *(field.name for field in top_level(schema))]


def _unknown_field(group: str, field: str, place: str, options: Sequence[Choice]) -> InputError:
    names = ", ".join(choice.name for choice in options)
    if not any(choice.options for choice in options):
        return InputError(f"unknown key '{group}.{field}': {group} {names} has no fields; omit it")
    fields = sorted({name for choice in options for name in choice.options})
    near = difflib.get_close_matches(field.lower(), fields, n=1, cutoff=0.6)
    remedy = f"did you mean {group}.{near[0]}?" if near else f"fields: {', '.join(fields)}"
    return InputError(f"{group} {names} has no field {field!r} ({place}); {remedy}")


def _of_another_option(key: str, place: str, owner: tuple[str, str], choices: Sequence[Choice]) -> InputError:
    files = any(field in choice.options for choice in choices for field in FILES)
    needless = " and needs no files" if key in PLACES and not files else ""
    return InputError(
        f"unknown key {place!r}: {owner[0]} {', '.join(choice.name for choice in choices)} does not have this "
        f"field{needless}; omit it, or add {'='.join(owner)}, which has it"
    )


def _of_another_verb(place: str, verb: str, of_experiment: bool = False) -> InputError:
    remedy = "omit it here"
    origin, _, _ = place.rpartition(": ")
    if origin.startswith("experiment "):
        command = f"`transduce {verb} {origin.replace(' ', '=', 1)}`"
        shows = " and prints its table" if verb in ("cluster", "fair") else ""
        remedy = f"{command} accepts the experiment{shows}" if of_experiment else f"try {command}"
    return InputError(f"{place} is a key of `transduce {verb}`, not of this verb; {remedy}")


def _plugins_with(field: str, group: str) -> Iterator[str]:
    """Yield the plug-ins of this project in a group that have a field."""
    if not is_mentioned(field):
        return
    kind = GROUPS[group]
    names = kind.plugins.table if kind.plugins else [kind.default] if kind.builds else []
    for name in names:
        if field in groups.described(group, name).hints:
            yield name
