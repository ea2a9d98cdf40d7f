"""Flags: what is said to a verb with two dashes, apart from the config."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from clustering.errors import InputError, unknown

FLAGS: Mapping[str, str] = {
    "dry-run": "show the resolved config and the plan, and do nothing",
    "run-missing": "evaluate what is not there yet, then show the table",
    "force": "run again what is already finished",
    "json": "write the result as JSON",
    "by-class": "the classes of the largest differences too",
    "quiet": "no progress and no messages",
    "debug": "show where an error comes from",
    "help": "show this",
}
ALWAYS = ("quiet", "debug", "help")


@dataclass(frozen=True)
class Flags:
    """The flags of a command line, and the other arguments in order."""

    settings: tuple[str, ...] = ()
    dry_run: bool = False
    run_missing: bool = False
    force: bool = False
    json: bool = False
    by_class: bool = False
    quiet: bool = False
    debug: bool = False
    help: bool = False


def parse_flags(verb: str, allowed: Sequence[str], arguments: Sequence[str]) -> Flags:
    """Tell flags from settings; flags may stand anywhere.

    Raises:
        InputError: for a flag that the verb does not have.
    """
    settings, given = [], {}
    for argument in arguments:
        name = {"-h": "--help", "-q": "--quiet", "-n": "--dry-run"}.get(argument, argument)
        if not name.startswith("-"):
            settings.append(argument)
            continue
        name = name.lstrip("-")
        if name not in FLAGS:
            if "=" in name:
                raise InputError(f"{argument!r}: keys are written without dashes: {name.replace('-', '_')}")
            raise unknown("flag", f"--{name}", [f"--{flag}" for flag in (*allowed, *ALWAYS)])
        if name not in (*allowed, *ALWAYS):
            raise InputError(f"transduce {verb} takes no --{name}; its flags: {describe_names(allowed)}")
        given[name.replace("-", "_")] = True
    return Flags(settings=tuple(settings), **given)


def describe_names(allowed: Sequence[str]) -> str:
    return ", ".join(f"--{name}" for name in (*allowed, *ALWAYS))


def describe(allowed: Sequence[str]) -> str:
    """The section of a verb's help on its flags."""
    return "\n".join(f"  --{name:<12} {about}" for name, about in FLAGS.items() if name in (*allowed, *ALWAYS))
