"""Flags of a verb: options with two dashes, which do not belong to the config."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from clustering.foundation.errors import InputError, unknown
from runs.config.overrides import write

FLAGS: Mapping[str, str] = {
    "dry-run": "show the resolved config and the plan, and run nothing",
    "run-missing": "first run missing evaluations and clusterings",
    "yes": "do not ask for confirmation (-y)",
    "executor": "where to run missing jobs: local (processes on this machine), or a Dask cluster",
    "limit-minutes": "start no job that would end more than X minutes from now",
    "force": "run again even if a finished result exists",
    "json": "write the result as JSON",
    "by-class": "also show the classes with the largest differences",
    "finish": "record the session as a run without opening the page",
    "no-browser": "print the address of the page, and open no browser",
    "csv": "write the result as CSV",
    "open": "open the result in a browser",
    "counts": "print the number of cells by verdict, and write no site",
    "quiet": "show no progress and no messages",
    "debug": "show the traceback of an error",
    "help": "show this help",
}
VALUES: Mapping[str, str] = {"executor": "local or dask://HOST:PORT", "limit-minutes": "a number above 0"}
LISTS = ("strategy", "classes", "features", "show")  # keys whose flag takes several values, as a,b
NUMBERS = ("batch", "n", "port")  # keys whose flag takes a number
ALWAYS = ("quiet", "debug", "help")
SHORT = {"-h": "--help", "-q": "--quiet", "-n": "--dry-run", "-y": "--yes"}


@dataclass(frozen=True)
class Flags:
    """The flags of a command line, and the other arguments in order."""

    settings: tuple[str, ...] = ()
    dry_run: bool = False
    run_missing: bool = False
    yes: bool = False
    executor: str = "local"
    limit_minutes: float | None = None
    force: bool = False
    json: bool = False
    by_class: bool = False
    finish: bool = False
    no_browser: bool = False
    csv: bool = False
    open: bool = False
    counts: bool = False
    quiet: bool = False
    debug: bool = False
    help: bool = False


def parse_flags(verb: str, allowed: Sequence[str], arguments: Sequence[str], keys: Sequence[str] = ()) -> Flags:
    """Separate flags from settings. Flags may stand anywhere; a value follows its flag, or follows `=`.

    Args:
        keys: keys that may also be written as flags: --support FOLDER is support=FOLDER, with commas kept in the name.

    Raises:
        InputError: the verb does not have the flag, or the flag does not accept the value.
    """
    settings: list[str] = []
    flags: dict[str, Any] = {}
    left = iter(arguments)
    for argument in left:
        if not argument.startswith("-"):
            settings.append(argument)
            continue
        own = argument.lstrip("-").partition("=")[0] in keys
        name, equals, text = (argument if own else SHORT.get(argument, argument)).lstrip("-").partition("=")
        key = name.replace("-", "_")
        if key in keys:
            typed = text if equals else next(left, "")
            if not typed or typed.startswith("--"):
                raise InputError(f"--{name} needs a value: --{name} VALUE, or {name}=VALUE")
            settings.append(f"{key}={typed if key in (*LISTS, *NUMBERS) else write(typed)}")
            continue
        if name not in FLAGS:
            if equals:
                raise InputError(
                    f"{argument!r}: keys are written without dashes: {argument.lstrip('-').replace('-', '_')}"
                )
            raise unknown("flag", f"--{name}", [f"--{flag}" for flag in (*allowed, *keys, *ALWAYS)])
        if name not in (*allowed, *ALWAYS):
            raise InputError(f"transduce {verb} has no flag --{name}; its flags: {describe_names(allowed)}")
        if equals and name not in VALUES:
            raise InputError(f"{argument!r}: --{name} takes no value")
        value = True if name not in VALUES else _value(name, text if equals else next(left, ""))
        flags[name.replace("-", "_")] = value
    return Flags(settings=tuple(settings), **flags)


def _value(name: str, text: str) -> str | float:
    """Read the value of a flag."""
    problem = InputError(f"--{name} takes {VALUES[name]}, not {text!r}")
    if name == "executor":
        if text != "local" and not re.fullmatch(r"dask://[^\s/]+:\d{1,5}", text):
            raise problem
        return text
    try:
        number = float(text)
    except ValueError:
        raise problem from None
    if not 0 < number < math.inf:
        raise problem
    return number


def describe_names(allowed: Sequence[str]) -> str:
    return ", ".join(f"--{name}" for name in (*allowed, *ALWAYS))


def describe(allowed: Sequence[str]) -> str:
    """Return the section of a verb's help text that describes its flags."""
    names = {f"--{name} X" if name in VALUES else f"--{name}": name for name in FLAGS if name in (*allowed, *ALWAYS)}
    width = max(map(len, names))
    takes = {name: f"; X is {meaning}" for name, meaning in VALUES.items()}
    return "\n".join(f"  {shown:<{width}} {FLAGS[name]}{takes.get(name, '')}" for shown, name in names.items())
