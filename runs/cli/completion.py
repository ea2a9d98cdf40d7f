"""`transduce completion`: tab completion of verbs, keys, options and flags, for bash and zsh."""

import importlib
import os
from collections.abc import Iterator, Sequence

from clustering.foundation.errors import InputError
from runs.cli.flags import ALWAYS, Flags
from runs.config import groups
from runs.config.configs import SCHEMAS, RunConfig, group_names, group_of, parse, top_level
from runs.config.label import LabelConfig, NextConfig
from runs.console.output import Console

FLAGS: tuple[str, ...] = ()
SHELLS = {
    "bash": "complete -o nospace -C 'transduce completion' transduce",
    "zsh": "autoload -U +X bashcompinit && bashcompinit\ncomplete -o nospace -C 'transduce completion' transduce",
}
OF_VERBS = {
    **SCHEMAS,
    **dict.fromkeys(("quickstart", "compare", "tasks", "table"), SCHEMAS["evaluate"]),
    "label": LabelConfig,
    "next": NextConfig,
}
"""The schema of each verb's keys."""

ABOUT = """\
usage: transduce completion bash|zsh

Print the shell command that enables tab completion of verbs, keys, options and flags. Add it to the shell's startup
file.

examples:
  transduce completion bash
  echo 'eval "$(transduce completion bash)"' >> ~/.bashrc
"""


def usage(settings: Sequence[str]) -> str:
    """Return the help of this verb."""
    return ABOUT


def run(flags: Flags, console: Console) -> int:
    """Print the shell's command, or the completions of the current word if the shell requests them."""
    line = os.environ.get("COMP_LINE")
    if line is not None:
        for word in completions(line[: int(os.environ.get("COMP_POINT", len(line)))]):
            console.write(word)
        return 0
    if len(flags.settings) != 1 or flags.settings[0] not in SHELLS:
        raise InputError(f"name a shell: transduce completion {'|'.join(SHELLS)}")
    console.write(SHELLS[flags.settings[0]])
    return 0


def completions(line: str) -> list[str]:
    """Return the completions of the last word of a command line, from its last `=` on, as bash expects.

    Args:
        line: the command line up to the cursor.
    """
    from runs.cli import VERBS

    *before, word = line.lstrip().split(" ")
    words = [word for word in before[1:] if word]
    if not words:
        return [f"{verb} " for verb in VERBS if verb.startswith(word)]
    verb = words[0]
    if verb not in VERBS:
        return []
    if word.startswith("-"):
        names = (*importlib.import_module(VERBS[verb][0]).FLAGS, *ALWAYS)
        return [f"--{name} " for name in names if f"--{name}".startswith(word)]
    schema = OF_VERBS.get(verb)
    if schema is None:
        return []
    key, equals, value = word.partition("=")
    if not equals:
        return [f"{name}=" for name in dict.fromkeys(_keys(schema, words[1:])) if name.startswith(word)]
    typed, comma, last = value.rpartition(",")
    return [f"{typed}{comma}{name}" for name in _options(schema, key) if name.startswith(last)]


def _keys(schema: type[RunConfig], settings: Sequence[str]) -> Iterator[str]:
    """Yield groups, top-level keys, and fields of the options chosen so far."""
    yield from (groups.GROUPS[group_of(schema, name)].key for name in group_names(schema))
    yield from (field.name for field in top_level(schema))
    yield "experiment"
    try:
        configs = parse(schema, settings)
    except InputError:
        return
    for config in configs:
        for choice in config.choices().values():
            yield from choice.options


def _options(schema: type[RunConfig], key: str) -> list[str]:
    if key in ("experiment", "selection", "tuning"):
        return groups.names(key)
    for name in group_names(schema):
        if groups.GROUPS[group_of(schema, name)].key == key:
            return groups.names(group_of(schema, name))
    return []
