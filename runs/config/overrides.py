"""The grammar of `key=value` on the command line and in experiment files.

key=value         one value: null, true, false, a number, text, or a list in brackets such as [45, 66]
key=a,b,c         three values: one run for each (the product over all such keys); range(0,5) is 0,1,2,3,4
key='a,b'         text in quotes is taken literally, including commas and numbers; quotes are those of YAML
"""

import json
import re
import shlex
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import yaml

from clustering.foundation.errors import InputError

INTEGER = re.compile(r"[-+]?\d+")
NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")
RANGE = re.compile(r"range\(\s*([-+]?\d+)\s*(?:,\s*([-+]?\d+)\s*)?(?:,\s*([-+]?[1-9]\d*)\s*)?\)")
WORDS = {"null": None, "none": None, "true": True, "false": False, "inf": float("inf"), "-inf": float("-inf")}
LONGEST = 4000  # digits of an integer; Python's limit is slightly above
DEEPEST = 20  # nested brackets
MOST = 10_000  # values of a range
CLOSING = {"[": "]", "(": ")", "{": "}"}


class Grid(tuple[Any, ...]):
    """Several values of a field, among which tuning chooses."""

    __slots__ = ()


class Value(NamedTuple):
    """A value with its text: a field of type text takes `1e3` literally."""

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
    return [value for part in parts for value in _expanded(key, part)]


def write(value: Any) -> str:
    """Return the text that `values` reads as exactly this value; for a `Grid`, as exactly its values."""
    if isinstance(value, Grid):
        return ",".join(write(item) for item in value)
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(write(item) for item in value) + "]"
    if isinstance(value, Mapping):
        return json.dumps(value, ensure_ascii=False)
    if not isinstance(value, str):
        return repr(value)
    plain = value and value == value.strip() and value.isprintable() and not re.search(r"[,\[\](){}\"']", value)
    if plain and not _special(value):
        return value
    return f"'{value}'" if "'" not in value and value.isprintable() else _double_quoted(value)


def _double_quoted(text: str) -> str:
    """Return text in the double quotes of YAML, with an escape for what cannot be printed."""
    text = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(letter if letter.isprintable() else f"\\U{ord(letter):08x}" for letter in text) + '"'


def spell(values: Mapping[str, Any]) -> str:
    """Return values as a user types them, such as `weight=0.7 neighbours=3`."""
    return " ".join(f"{field}={write(value)}" for field, value in values.items())


def command(words: Iterable[str]) -> str:
    """Return a command line that a shell reads as these words."""
    return shlex.join(words)


def is_number(value: Any) -> bool:
    """Return whether a value is an integer or a float, but not a boolean."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _special(text: str) -> bool:
    return text.lower() in WORDS or bool(NUMBER.fullmatch(text))


def _parts(key: str, text: str) -> list[str]:
    parts, current, expected, quote, escaped = [], "", [], "", False
    for letter in text:
        if quote:
            quote = "" if letter == quote and not escaped else quote
            escaped = letter == "\\" and quote == '"' and not escaped
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
        raise InputError(f"{key}={text}: {quote or expected[-1]} is missing at the end; text with it needs quotes")
    return [*parts, current.strip()]


def _expanded(key: str, part: str) -> list[Value]:
    if match := RANGE.fullmatch(part):
        first, last, step = (int(number) if number else None for number in match.groups())
        numbers = range(first or 0, last, step or 1) if last is not None else range(first or 0)
        if not 0 < len(numbers) <= MOST:
            raise InputError(f"{key}={part} has {len(numbers):,} values; give 1 to {MOST:,}, as range(0,5)")
        return [Value(str(number), number) for number in numbers]
    return [_value(key, part)]


def _value(key: str, text: str) -> Value:
    quoted = text[0] in "'\"" and text[-1] == text[0] and len(text) > 1
    if quoted or (text[0] == "{" and text[-1] == "}"):
        try:
            value = yaml.safe_load(text)
        except yaml.YAMLError as error:
            if quoted:
                return Value(text[1:-1], text[1:-1])
            raise InputError(f"{key}={text}: {str(error).splitlines()[0]}; write it as {{a: 1, b: 2}}") from error
        return Value(value if isinstance(value, str) else text, value)
    if text[0] == "[" and text[-1] == "]":
        inner = text[1:-1].strip()
        return Value(text, [item.value for item in values(key, inner)] if inner else [])
    if text.lower() in WORDS:
        return Value(text, WORDS[text.lower()])
    if INTEGER.fullmatch(text) and len(text) <= LONGEST:
        return Value(text, int(text))
    return Value(text, float(text) if NUMBER.fullmatch(text) else text)
