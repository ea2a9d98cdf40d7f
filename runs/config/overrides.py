"""The grammar of `key=value` on the command line and in experiment files.

key=value         one value: null, true, false, a number, text, or a list in brackets such as [45, 66]
key=a,b,c         three values: one run for each (the product over all such keys)
key='a,b'         text in quotes is taken literally, including commas and numbers
"""

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from clustering.foundation.errors import InputError

INTEGER = re.compile(r"[-+]?\d+")
NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")
WORDS = {"null": None, "none": None, "true": True, "false": False, "inf": float("inf"), "-inf": float("-inf")}
LONGEST = 4000  # digits of an integer; Python's limit is slightly above
DEEPEST = 20  # nested brackets
CLOSING = {"[": "]", "(": ")", "{": "}"}


class Grid(tuple[Any, ...]):
    """Several values of a field, among which tuning chooses."""

    __slots__ = ()


class Value(NamedTuple):
    """A value with its original text: a field of type text takes `1e3` literally."""

    text: str
    value: Any


def split(argument: str) -> tuple[str, str]:
    """Split `key=value` into key and text.

    Raises:
        InputError: the `=`, the key or the value is missing.
    """
    key, equals, text = argument.partition("=")
    key, text = key.strip(), text.strip()
    if not equals:
        raise InputError(f"{argument!r} is not of the form key=value")
    if key[:1] in "+~" and key[1:]:
        raise InputError(f"{argument!r}: write {key[1:]}=VALUE; keys cannot be added or removed")
    if not re.fullmatch(r"[A-Za-z_][\w.-]*", key):
        raise InputError(f"{argument!r}: {key!r} is not a key; write key=value")
    if not text:
        raise InputError(f"{key}= has no value; write {key}=null for none")
    return key, text


def values(key: str, text: str) -> list[Value]:
    """Return the values of `text`, separated by commas outside of quotes and brackets.

    Raises:
        InputError: a bracket or quote is not closed, or a value is empty; the message names the key.
    """
    parts = _parts(key, text)
    if any(not part for part in parts):
        raise InputError(f"{key}={text}: a value is empty, between commas or at an end; remove the extra comma")
    return [_value(key, part) for part in parts]


def write(value: Any) -> str:
    """Return the text that `values` reads as exactly this value; for a `Grid`, as exactly its values."""
    if isinstance(value, Grid):
        return ",".join(write(item) for item in value)
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(write(item) for item in value) + "]"
    if not isinstance(value, str):
        return repr(value)
    if "'" not in value and (value != value.strip() or re.search(r"[,\[\](){}\"]|^$", value) or _special(value)):
        return f"'{value}'"
    return f'"{value}"' if "'" in value and '"' not in value else value


def spell(values: Mapping[str, Any]) -> str:
    """Return values as a user types them, such as `weight=0.7 neighbours=3`."""
    return " ".join(f"{field}={write(value)}" for field, value in values.items())


def _special(text: str) -> bool:
    return text.lower() in WORDS or bool(NUMBER.fullmatch(text))


def _parts(key: str, text: str) -> list[str]:
    parts, current, expected, quote = [], "", [], ""
    for letter in text:
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"" and current.rstrip()[-1:] in ("", "[", ","):
            quote = letter  # a quote inside a word, as in o'clock, does not open a quotation
        elif letter in CLOSING:
            expected.append(CLOSING[letter])
            if len(expected) > DEEPEST:
                raise InputError(f"{key}={text[:40]}...: more than {DEEPEST} nested brackets; remove some")
        elif expected and letter == expected[-1]:
            expected.pop()
        elif letter == "," and not expected:
            parts.append(current.strip())
            current = ""
            continue
        current += letter
    if quote or expected:
        raise InputError(f"{key}={text}: {quote or expected[-1]} is missing at the end")
    return [*parts, current.strip()]


def _value(key: str, text: str) -> Value:
    if text[0] in "'\"" and text[-1] == text[0] and len(text) > 1:
        return Value(text[1:-1], text[1:-1])
    if text[0] == "[" and text[-1] == "]":
        inner = text[1:-1].strip()
        return Value(text, [item.value for item in values(key, inner)] if inner else [])
    if text.lower() in WORDS:
        return Value(text, WORDS[text.lower()])
    if INTEGER.fullmatch(text) and len(text) <= LONGEST:
        return Value(text, int(text))
    return Value(text, float(text) if NUMBER.fullmatch(text) else text)


def coerce(key: str, typed: Value, default: Any) -> Any:
    """Convert `given` to the type of `default`.

    Null is accepted, and so is any value if the default is null. The bounds are checked later, by the dataclass that
    receives the value.

    Raises:
        InputError: the value has another type; the message names the key, the expected type and the text.
    """
    value = typed.value
    if default is None or value is None:
        return value
    number = is_number(value)
    if isinstance(default, bool):
        fits, kind = isinstance(value, bool), "true or false"
    elif isinstance(default, int):
        fits, kind = number and isinstance(value, int), "an integer"
    elif isinstance(default, float):
        fits, kind = number, "a number"
        value = _float(value) if number else value
    elif isinstance(default, str):
        return typed.text
    else:
        fits, kind = isinstance(value, list), f"a list, such as {write(default)}"
        value = _items(key, value, default) if fits else value
    if not fits:
        raise InputError(f"{key} must be {kind}, not {typed.text!r}")
    return value


def _float(value: float) -> float:
    try:
        return float(value)
    except OverflowError:  # a long integer
        return math.inf


def is_number(value: Any) -> bool:
    """Return whether a value is an integer or a float, but not a boolean."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _items(key: str, items: Sequence[Any], default: Sequence[Any]) -> list[Any]:
    if not default:
        return list(items)
    return [coerce(key, Value(str(item), item), default[0]) for item in items]
