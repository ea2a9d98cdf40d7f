"""Keys of verbs without a config."""

from collections.abc import Mapping, Sequence
from typing import Any

from clustering.foundation.errors import InputError, unknown
from runs.config import overrides


def read_keys(settings: Sequence[str], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Return the value of each key, from the settings or else from the defaults.

    Raises:
        InputError: a key is unknown, has several values, or has a value of another type than its default.
    """
    values_by_key = dict(defaults)
    for setting in settings:
        key, text = overrides.split(setting)
        if key not in defaults:
            raise unknown("key", key, defaults)
        (value, *rest) = overrides.values(key, text)
        if rest:
            raise InputError(f"{key}= takes one value, not {text!r}")
        values_by_key[key] = overrides.coerce(key, value, defaults[key])
    return values_by_key
