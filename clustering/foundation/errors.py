"""The exception for errors that users can correct."""

import difflib
import pickle
import re
import shlex
import textwrap
from collections.abc import Iterable


class InputError(ValueError):
    """Says what is wrong, where (file, key, value), and what to do. The command line prints it and exits with code
    2."""


class LeftOut(UserWarning):
    """Says which data are left out. The command line shows it."""


def unknown(kind: str, name: str, known: Iterable[str], listed: str = "") -> InputError:
    """An `InputError` for an unknown name.

    It suggests the nearest known names, or else lists all of them or, if there are too many, names the command that
    does.
    """
    names = sorted(set(known))
    lower = {other.lower(): other for other in names}
    near = difflib.get_close_matches(name.lower(), lower, n=3, cutoff=0.5)  # nearest first
    nearest = [repr(lower[other]) for other in near if _likeness(name, other) == _likeness(name, near[0])]
    remedy = f"see {listed}" if listed else "known: " + ", ".join(names)
    if near:
        remedy = f"did you mean {' or '.join(sorted(nearest))}?"
    return InputError(f"unknown {kind} {name!r}; {remedy}")


def setting(key: str, value: object) -> str:
    """Return `key=value` for a suggested command: for the shell, and in quotes if the value has commas or brackets."""
    text = str(value)
    if re.fullmatch(r"[^,\[\](){}'\"]+", text):
        return shlex.quote(f"{key}={text}")
    literal = f"{key}='" + text.replace("'", "''") + "'"
    return shlex.quote(literal) if re.search(r'["$`\\!]', literal) else f'"{literal}"'


def reason(error: BaseException) -> str:
    """The first sentence of another library's error, shortened to 100 printable characters.

    PyTorch's full message recommends options that run the code in a file.
    """
    if isinstance(error, (pickle.UnpicklingError, KeyError)):  # a KeyError is of a code that no pickle has
        return "it cannot be unpickled"
    first = re.split(r"[.!] |\n", str(error), maxsplit=1)[0].rstrip(".")
    words = "".join(letter if letter.isprintable() else "?" for letter in first)
    return textwrap.shorten(words, 100, placeholder="...") or type(error).__name__


def _likeness(name: str, other: str) -> float:
    return difflib.SequenceMatcher(None, other, name.lower()).ratio()
