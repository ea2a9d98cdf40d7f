"""YAML files of settings, read by OmegaConf: plain data of limited depth, with ${key} between the keys of a file."""

import copy
import io
import re
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from clustering.files.regular import open_regular
from clustering.foundation.errors import InputError

DEEPEST = 30  # nested lists and mappings
RESOLVER = re.compile(r"(?<!\\)(?:\\\\)*\$\{[^}]*[:$]")  # ${oc.env:NAME}, or a reference inside a reference

OmegaConf.clear_resolver("oc.env")  # secrets of the environment stay out of the record


def is_yaml(name: str) -> bool:
    """Return whether a name is the path of a YAML file."""
    return name.endswith((".yaml", ".yml"))


def parse_yaml(text: str) -> Any:
    """Parse the text of a YAML file with OmegaConf, which limits the expansion of aliases. References stay as written.

    Raises:
        ValueError: the text is not valid YAML, has tags other than YAML's own, or is too deeply nested.
    """
    depth = 0
    try:
        for event in yaml.parse(text, yaml.SafeLoader):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > DEEPEST:
                raise ValueError(f"more than {DEEPEST} nested lists or mappings")
        return OmegaConf.to_container(OmegaConf.load(io.StringIO(text)))
    except (yaml.YAMLError, OmegaConfBaseException, OSError) as error:
        raise ValueError(str(error)) from error


def read(path: Path) -> dict[str, Any]:
    """Read a YAML file of keys and values.

    Raises:
        InputError: the file does not exist or is not valid; the message names the file and the line.
    """
    try:
        state = path.stat()
        return copy.deepcopy(_content(path, state.st_mtime_ns, state.st_size))
    except FileNotFoundError as error:
        raise InputError(f"{path}: no such file") from error
    except OSError as error:
        raise InputError(f"{path}: not a readable YAML file: {error}") from error


@lru_cache(maxsize=256)
def _content(path: Path, changed: int, size: int) -> dict[str, Any]:
    """Return the content of a YAML file, cached until its modification time or size changes."""
    try:
        with open_regular(path) as file:
            content = parse_yaml(file.read().decode("utf-8"))
    except ValueError as error:
        raise InputError(f"{path}: not a readable YAML file: {error}") from error
    if content is None:
        return {}  # a file with only comments
    if not isinstance(content, dict) or not all(isinstance(key, str) for key in content):
        raise InputError(f"{path}: must consist of lines of the form `key: value`")
    _check(content, str(path))
    view = _view(content)
    return {key: _resolved(value, view, f"{path}: {key}") for key, value in content.items()}


def _check(value: Any, place: str) -> None:
    """Refuse references outside the file, so that secrets of the environment stay out of the record."""
    if isinstance(value, dict):
        for key, item in value.items():
            _check(item, f"{place}: {key}")
    elif isinstance(value, list):
        for item in value:
            _check(item, place)
    elif isinstance(value, str) and "\0" in value:
        raise InputError(f"{place}: {value!r} has a NUL character, which names and paths cannot have; delete it")
    elif isinstance(value, str) and RESOLVER.search(value):
        raise InputError(
            f"{place}: {value!r}: only ${{key}} of a key of this file is substituted, neither variables of the "
            r"environment nor other resolvers; write the value itself, or \${ for these characters"
        )


def _view(content: dict[str, Any]) -> DictConfig:
    """Return the file as references see it: `training.epochs: 4` is the key epochs below training."""
    view = OmegaConf.create({})
    for key, value in content.items():
        if not any(other.startswith(f"{key}.") for other in content):
            OmegaConf.update(view, key, value, force_add=True)
    return view


def _resolved(value: Any, view: DictConfig, place: str) -> Any:
    if "$" not in str(value):
        return value
    try:
        node = OmegaConf.create({"value": value})
        node._set_parent(view)
        return OmegaConf.to_container(node, resolve=True)["value"]  # type: ignore[call-overload, index]
    except OmegaConfBaseException as error:
        problem = str(error).splitlines()[0]
        raise InputError(f"{place}: {problem}; ${{key}} names another key of this file") from error
