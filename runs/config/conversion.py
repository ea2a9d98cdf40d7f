"""Conversion of typed values to the type of a field, by its annotation."""

import math
from typing import Any

from clustering.foundation.errors import InputError
from clustering.foundation.parameters import mismatch
from runs.config import overrides
from runs.config.overrides import Value, is_number
from runs.config.source import REQUIRED, freeze


def takes_lists(hint: Any) -> bool:
    """Return whether a field holds a list."""
    return hint is not Any and hint is not dict and mismatch((), hint) is None


def as_list(key: str, text: str, hint: Any) -> str:
    """Return the text of a list: a,b becomes [a,b]; null becomes [] unless the field may be null."""
    if text.lower() in ("null", "none"):
        return text if mismatch(None, hint) is None else "[]"
    parts = [value.value for value in overrides.values(key, text)]
    lists = any(isinstance(part, list) for part in parts) and all(
        part is None or isinstance(part, list) for part in parts
    )
    return text if lists else f"[{text}]"


def convert(place: str, typed: Value, hint: Any, default: Any = None) -> Any:
    """Return a value in the type of a field; ranges are checked too.

    Args:
        place: the key, for messages.
        typed: the value with its text: in a field of type text, 2024 stays text.
        hint: the annotation of the field; Any: the type of the default decides.
        default: the default of the field.

    Raises:
        InputError: the value does not fit.
    """
    if hint is dict:
        if not isinstance(typed.value, dict):
            raise InputError(f"{place} takes keys below it, as {place}.KEY=value, not {typed.text!r}")
        return typed.value
    if hint is Any:
        return _by_default(place, typed, None if default == REQUIRED else default)
    value = freeze(typed.value)
    problem = mismatch(value, hint, math.inf)
    if problem and value is not None and not isinstance(value, str) and _is_text(typed, hint):
        return typed.text
    if problem and isinstance(value, tuple):
        texts = tuple(part.text for part in overrides.values(place, typed.text[1:-1])) if value else ()
        if mismatch(texts, hint, math.inf) is None:
            return texts
    if problem:
        raise InputError(f"{place} must be {problem}, not {typed.text!r}")
    return _as_float(value, hint)


def _is_text(typed: Value, hint: Any) -> bool:
    return mismatch(typed.text, hint, math.inf) is None


def _as_float(value: Any, hint: Any) -> Any:
    """Return an integer as a float if the field holds floats."""
    if isinstance(value, tuple):
        return tuple(_as_float(item, float if mismatch((0.5,), hint) is None else hint) for item in value)
    whole = isinstance(value, int) and not isinstance(value, bool)
    if not whole or (mismatch(0.5, hint, math.inf) is not None and mismatch(1e6 + 0.5, hint, math.inf) is not None):
        return value
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _by_default(place: str, typed: Value, default: Any) -> Any:
    value = freeze(typed.value)
    if default is None or value is None:
        return value
    if isinstance(default, bool):
        fits, kind = isinstance(value, bool), "true or false"
    elif isinstance(default, int):
        fits, kind = is_number(value) and isinstance(value, int), "an integer"
    elif isinstance(default, float):
        fits, kind = is_number(value), "a number"
        value = float(value) if fits else value
    elif isinstance(default, str):
        return typed.text
    else:
        fits, kind = isinstance(value, tuple), f"a list, such as {overrides.write(default)}"
    if not fits:
        raise InputError(f"{place} must be {kind}, not {typed.text!r}")
    return value
