"""The grammar of `key=value` on the command line and in experiment files, and its conversion to the type of a field.

key=value         one value: null, true, false, a number, text, or a list in brackets such as [45, 66]
key=a,b,c         three values: one run for each (the product over all such keys)
key='a,b'         text in quotes is taken literally, including commas and numbers; quotes are those of YAML
"""

import json
import math
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import yaml

from clustering.foundation.errors import InputError, setting
from clustering.foundation.parameters import mismatch
from runs.config.source import freeze

NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")
WORDS = {"null": None, "none": None, "true": True, "false": False, "inf": math.inf, "-inf": -math.inf}
DEEPEST = 20  # nested brackets
# a quotation at the beginning of an item, else a character; a quote inside a word, as in o'clock, opens none
TOKEN = re.compile(r"""(?<![^,\[])\s*(?:'(?:[^']|'')*'|"(?:[^"\\]|\\.)*")|.""", re.DOTALL)
CLOSING = {"[": "]", "(": ")", "{": "}"}


class Grid(tuple[Any, ...]):
    """Several values of a field, among which tuning chooses."""

    __slots__ = ()


class Value(NamedTuple):
    """A value with its text: a field of type text takes `1e3` literally."""

    text: str
    value: Any


def of_file(value: Any) -> Value:
    """Return a value of a YAML file with its text."""
    return Value(value if isinstance(value, str) else write(value), value)


def split(argument: str) -> tuple[str, str]:
    """Split `key=value` into key and text.

    Raises:
        InputError: the `=`, the key or the value is missing.
    """
    key, equals, text = map(str.strip, argument.partition("="))
    if not equals:
        raise InputError(
            f"{argument!r} is not of the form key=value; write {key.lstrip('+~')}=VALUE, as in benchmark=glyphs"
        )
    if not re.fullmatch(r"[A-Za-z_][\w.-]*", key):
        raise InputError(f"{argument!r}: {key!r} is not a key; write {key.lstrip('+~') or 'key'}=VALUE")
    if not text:
        raise InputError(f"{key}= has no value; write {key}=null for none")
    return key, text


def values(key: str, text: str) -> list[Value]:
    """Return the values of `text`, separated by commas outside of quotes and brackets.

    Raises:
        InputError: a bracket or quote is not closed, or a value is empty; the message names the key.
    """
    found: list[Value] = []
    for part in _parts(key, text):
        if not part:
            raise InputError(f"{key}={text}: a value is empty, between commas or at an end; remove the extra comma")
        found.append(_value(key, part))
    return found


def _parts(key: str, text: str) -> list[str]:
    parts, expected = [""], list[str]()
    for token in TOKEN.findall(text):
        if token == "," and not expected:
            parts.append("")
            continue
        if expected and token == expected[-1]:
            expected.pop()
        elif token in CLOSING:
            expected.append(CLOSING[token])
        elif token in ("'", '"') and parts[-1].rstrip()[-1:] in ("", "[", ","):
            expected.append(token)
        parts[-1] += token
        if len(expected) > DEEPEST:
            raise InputError(f"{key}={text[:40]}...: more than {DEEPEST} nested brackets; remove some")
    if expected:
        raise InputError(f"{key}={text}: {expected[-1]} is missing at the end; {quoted(key, text)}")
    return [part.strip() for part in parts]


def quoted(key: str, text: str) -> str:
    """Return how to give a text as it stands, for the shell."""
    return f"text with commas, brackets or quotes is quoted, also for the shell: {setting(key, text)}"


def _value(key: str, text: str) -> Value:
    ends = text[0] + text[-1] if len(text) > 1 else ""
    if ends == "[]":
        return Value(text, [item.value for item in values(key, text[1:-1])] if text[1:-1].strip() else [])
    if ends in ("''", '""', "{}"):
        try:
            value = yaml.safe_load(text)
        except yaml.YAMLError as error:
            raise InputError(f"{key}={text}: {str(error).splitlines()[0]}; {quoted(key, text)}") from error
        return Value(value if isinstance(value, str) else text, value)
    if text.lower() in WORDS or not NUMBER.fullmatch(text):
        return Value(text, WORDS.get(text.lower(), text))
    try:
        return Value(text, int(text))
    except ValueError:  # a fraction, or more digits than Python takes
        return Value(text, float(text))


def items(key: str, typed: Value) -> list[Value]:
    """Return the items of a list; another value by itself."""
    return values(key, typed.text[1:-1]) if isinstance(typed.value, list) and typed.value else [typed]


def of_field(place: str, text: str, hint: Any) -> list[Any]:
    """Return the values that a text gives a field.

    In a field that holds a list, a,b is one list, null is [] unless the field may be null, and a word that the field
    allows in place of a list is that word. In another field, [a, b] is several values, as a,b.
    """
    found = values(place, text)
    if hint is Any:
        pass
    elif mismatch((), hint) is not None:
        found = [item for one in found for item in items(place, one)]
    elif [one.value for one in found] == [None]:
        found = found if mismatch(None, hint) is None else [Value("[]", [])]
    elif not all(one.value is None or isinstance(one.value, list) or _is_word(one.value, hint) for one in found):
        found = values(place, f"[{text}]")
    return [convert(place, one, hint) for one in found]


def _is_word(value: Any, hint: Any) -> bool:
    """Whether a field allows this word, but not any text."""
    return isinstance(value, str) and mismatch(value, hint) is None and mismatch("\0", hint) is not None


def convert(place: str, typed: Value, hint: Any) -> Any:
    """Return a value in the type of a field: 2024 is text in a field of type text, and 1 a float in one of floats.

    Raises:
        InputError: the value does not fit the annotation; the message begins with `place`.
    """
    forms = [freeze(typed.value)]
    if isinstance(typed.value, list) and typed.value:
        forms.append(tuple(part.text for part in items(place, typed)))
    if typed.value is not None:
        forms.append(typed.text)
    for form in forms:
        if mismatch(form, hint, math.inf) is None:
            return _as_float(form, hint)
    raise InputError(f"{place} must be {mismatch(forms[0], hint, math.inf)}, not {typed.text!r}")


def _as_float(value: Any, hint: Any) -> Any:
    """Return an integer as a float if the field holds floats."""
    if isinstance(value, tuple):
        floats = mismatch((0.5,), hint) is None and mismatch((object(),), hint) is not None
        return tuple(_as_float(item, float if floats else Any) for item in value)
    if type(value) is not int or hint is Any or (mismatch(0.5, hint) and mismatch(1e6 + 0.5, hint)):
        return value
    return float(value) if abs(value) < 1e300 else math.inf


def write(value: Any) -> str:
    """Return the text that `values` reads as exactly this value; for a `Grid`, as exactly its values."""
    if isinstance(value, Grid):
        return ",".join(map(write, value))
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(write, value))}]"
    if value is None or isinstance(value, (bool, Mapping)):
        return json.dumps(value, ensure_ascii=False)
    if not isinstance(value, str):
        return repr(value)
    plain = value and value == value.strip() and value.isprintable() and not re.search(r"[,\[\](){}\"']", value)
    if plain and value.lower() not in WORDS and not NUMBER.fullmatch(value):
        return value
    if "'" not in value and value.isprintable():
        return f"'{value}'"
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(letter if letter.isprintable() else f"\\U{ord(letter):08x}" for letter in escaped) + '"'


def spell(values: Mapping[str, Any]) -> str:
    """Return values as a user types them, such as `weight=0.7 n_neighbors=3`."""
    return " ".join(f"{field}={write(value)}" for field, value in values.items())


def is_number(value: Any) -> bool:
    """Return whether a value is an integer or a float, but not a boolean."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)
