"""YAML files of settings, read and written by OmegaConf: plain data, with ${key} between the keys of a file."""

import copy
import io
import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from clustering.files.regular import open_regular
from clustering.foundation.errors import InputError
from runs.config.overrides import Grid, write

LARGEST = 1 << 18  # bytes of a file

for resolver in ("env", "decode", "create", "select", "deprecated", "dict.keys", "dict.values"):
    OmegaConf.clear_resolver(f"oc.{resolver}")  # secrets of the environment stay out of the record


def is_yaml(name: str) -> bool:
    """Return whether a name is the path of a YAML file."""
    return name.endswith((".yaml", ".yml"))


def read(path: Path) -> dict[str, Any]:
    """Read a YAML file of keys and values.

    Raises:
        InputError: the file does not exist or is not valid; the message names the file and the line or the key.
    """
    try:
        with open_regular(path) as file:
            content = file.read(LARGEST + 1)
        if len(content) > LARGEST:
            raise ValueError(f"it has more than the {LARGEST:,} bytes of a file of settings")
        return copy.deepcopy(parse_yaml(content.decode("utf-8")))
    except FileNotFoundError as error:
        raise InputError(f"{path}: no such file") from error
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path}: {error}") from error


@lru_cache(maxsize=256)
def parse_yaml(text: str) -> dict[str, Any]:
    """Parse `key: value` lines with OmegaConf, which limits the expansion of aliases.

    Raises:
        ValueError: the text is not valid YAML, has tags other than YAML's own, is too deeply nested, or refers to what
            is no key of it, such as a variable of the environment.
    """
    try:
        content: Any = OmegaConf.to_container(OmegaConf.load(io.StringIO(text)), resolve=True)
    except OmegaConfBaseException as error:
        raise ValueError(
            f"{error.full_key}: {str(error).splitlines()[0]}; only ${{key}} of a key of this file is substituted, "
            r"neither variables of the environment nor other resolvers; write the value itself, or \${ for these "
            "characters"
        ) from error
    except (yaml.YAMLError, OSError) as error:
        raise ValueError(f"not a readable YAML file: {error}") from error
    if not isinstance(content, dict) or not all(isinstance(key, str) for key in content):
        raise ValueError("it must consist of lines of the form `key: value`")
    if re.search(r"(?<!\\)(?:\\\\)*\\x00", repr(content)):
        raise ValueError("it has a NUL character, which names and paths cannot have; delete it")
    return content


def dump(settings: Mapping[str, Any]) -> str:
    """Return settings as YAML that `read` and `OmegaConf.load` read back."""
    return OmegaConf.to_yaml(OmegaConf.create({key: _written(value) for key, value in settings.items()}))


def _written(value: Any) -> Any:
    """Return a value as a file holds it: text as on the command line, but as it stands in lists, and ${ escaped."""
    if isinstance(value, Mapping):
        return {key: _written(item) for key, item in value.items()}
    if isinstance(value, (tuple, list)) and not (isinstance(value, Grid) and isinstance(value[0], tuple)):
        return [_escaped(item) if isinstance(item, str) else _written(item) for item in value]
    return _escaped(write(value)) if isinstance(value, (str, tuple)) else value


def _escaped(text: str) -> str:
    return re.sub(r"(\\*)\$\{", r"\1\1\\${", text)  # ${ would refer to another key
