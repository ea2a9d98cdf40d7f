"""Base class of the configs: chosen groups, top-level keys, and the keys that can change a result."""

import dataclasses
import functools
import hashlib
import os
import re
import typing
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Self

from clustering.files.regular import open_regular
from clustering.foundation.errors import InputError
from clustering.foundation.parameters import AtLeast, mismatch
from clustering.foundation.plugins import dotted
from runs.config.groups import Choice
from runs.config.overrides import write
from runs.config.yaml_files import dump

PLACES = ("root",)  # fields that hold folders; the content of their files is fingerprinted separately
FILES = (*PLACES, "path")  # fields that say where the data of a choice are; a choice without them needs no files


def key(default: Any, about: str, *, execution: bool = False, counts: bool | None = True) -> Any:
    """Define a top-level key with its text in the help. A key whose default is {} takes any keys below it.

    `execution`: it sets how and where to run, and cannot change the result. `counts`: whether it is a result key; None:
    only if it is set, since a result from before it has the same key.
    """
    metadata = {"about": about, "execution": execution, "counts": counts and not execution}
    given = {"default_factory": dict} if default == {} else {"default": default}
    return dataclasses.field(**given, metadata=metadata)


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """Base class of all configs. Fields that are not defined by `key` are groups."""

    offered: ClassVar[Mapping[str, str]] = {}  # the group of a field's options, if its name differs from the field
    defaults: ClassVar[Mapping[str, str]] = {}  # options of groups that are default here, if not those of the group

    seed: Annotated[int, AtLeast(0)] = key(0, "seed of all random numbers")
    device: str = key("auto", "auto, cpu, cuda or cuda:N", execution=True)
    results: str | None = key(None, "folder of results; null: $TRANSDUCE_RESULTS, else results/ here", execution=True)

    def __post_init__(self) -> None:
        hints = hints_of(type(self))
        for name, value in self._values().items():
            if problem := mismatch(value, hints[name]):
                raise InputError(f"{name} must be {problem}, not {value!r}")
        if self.results == "":
            raise InputError("results= is empty; give a folder, or omit it")
        if not re.fullmatch(r"auto|cpu|cuda(:\d+)?", self.device):
            raise InputError(f"device must be auto, cpu, cuda or cuda:N, not {self.device!r}")

    def choices(self) -> dict[str, Choice]:
        """Return the chosen option of each group."""
        return {name: getattr(self, name) for name in group_names(type(self))}

    def as_json(self) -> dict[str, Any]:
        """Return all keys in dotted form with their values: `{"strategy": "laplacianshot", "strategy.weight": 0.7}`.

        `strategy.name` is added if the option is a preset, and names the plug-in it builds.
        """
        return dict(self._items())

    def flat(self) -> dict[str, Any]:
        """Return `as_json()` with lists as strings: all values are null, booleans, numbers or strings."""
        return {name: write(value) if isinstance(value, (tuple, Mapping)) else value for name, value in self._items()}

    def shown(self) -> dict[str, str]:
        """Return `flat()` for display: values as strings, and `tuned` for the fields that tuning chooses."""
        chosen = {f"{group}.{field}": "tuned" for group, choice in self.choices().items() for field in choice.grids}
        return {name: "null" if value is None else str(value) for name, value in self.flat().items()} | chosen

    def result_keys(self) -> dict[str, Any]:
        """Return `flat()` without keys that cannot change the result, such as folders, whose content is hashed apart.

        A group is its plug-in and values, so that a preset and the same values given one by one are the same run.
        """
        left_out = {field.name for field in top_level(type(self)) if not self._counts(field)}
        kept = {}
        for name, value in self.flat().items():
            first, _, below = name.partition(".")
            if first not in left_out and below not in (*PLACES, "name"):
                kept[name] = value
        return kept | {group: dotted(choice.plugin) for group, choice in self.choices().items()}

    def _counts(self, field: "dataclasses.Field[Any]") -> bool:
        counts = field.metadata["counts"]
        return getattr(self, field.name) != field.default if counts is None else bool(counts)

    def arguments(self) -> list[str]:
        """Return the command-line arguments from which `parse` returns this config."""
        return [f"{name}={write(value)}" for name, value in self._items() if not name.endswith(".name")]

    def to_yaml(self) -> str:
        """Return the config as YAML text, readable with `OmegaConf.load` and with `experiment=FILE.yaml`."""
        return to_yaml([self])

    def nested(self) -> dict[str, Any]:
        """Return all keys; a group with fields is a mapping of its name and its fields."""
        chosen = {
            group: {"name": choice.name, **choice.options} if choice.options else choice.name
            for group, choice in self.choices().items()
        }
        return chosen | {name: value for name, value in self._values().items() if value != {}}

    def _values(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in top_level(type(self))}

    def _items(self) -> Iterator[tuple[str, Any]]:
        for group, choice in self.choices().items():
            yield group, choice.name
            if choice.plugin != choice.name:
                yield f"{group}.name", choice.plugin
            yield from ((f"{group}.{name}", value) for name, value in choice.options.items())
        for name, value in self._values().items():
            yield from _leaves(name, value) if isinstance(value, Mapping) else [(name, value)]

    def replace(self, **changes: Any) -> Self:
        """Return a copy with changed top-level keys."""
        return dataclasses.replace(self, **changes)


def _leaves(name: str, value: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the values below a mapping in dotted form; an empty mapping only below the top level."""
    for below, item in value.items():
        if isinstance(item, Mapping) and item and all(re.fullmatch(r"[A-Za-z_][\w-]*", str(one)) for one in item):
            yield from _leaves(f"{name}.{below}", item)
        else:
            yield f"{name}.{below}", tuple(item) if isinstance(item, list) else item


def hints_of(schema: Any) -> dict[str, Any]:
    """Return the type hints of a schema's fields."""
    return _hints(schema)


@functools.cache  # a function of its own: mypy does not take the type of a dataclass for hashable
def _hints(schema: Any) -> dict[str, Any]:
    hints = typing.get_type_hints(schema, include_extras=True)
    return {field.name: hints[field.name] for field in dataclasses.fields(schema)}


def group_names(schema: type[RunConfig]) -> list[str]:
    """Return the groups of a schema, in the order of its fields."""
    return [field.name for field in dataclasses.fields(schema) if not field.metadata]


def group_of(schema: type[RunConfig], key: str) -> str:
    """Return the group whose options a key of a schema accepts."""
    return schema.offered.get(key, key)


def top_level(schema: type[RunConfig]) -> list["dataclasses.Field[Any]"]:
    """Return the top-level keys of a schema, in the order of its fields."""
    return [field for field in dataclasses.fields(schema) if field.metadata]


def to_yaml(configs: Sequence[RunConfig]) -> str:
    """Return several configs of one verb as one YAML text: what they share, and below `each` what differs."""
    found = [config.nested() for config in configs]
    shared = {name: value for name, value in found[0].items() if all(other.get(name) == value for other in found)}
    own = [{name: value for name, value in one.items() if name not in shared} for one in found]
    return dump(shared | ({"each": own} if len(own) > 1 else {}))


def content(key: str, path: str, expected: str) -> str:
    """Return the hash of the content of a file given by `key`; the error message asks for `expected`."""
    try:
        state = os.stat(path)
        return _digest(path, state.st_mtime_ns, state.st_size)
    except OSError as error:
        raise InputError(f"{key}={path}: cannot be read ({error.strerror}); give {expected}") from error


@functools.lru_cache(maxsize=64)
def _digest(path: str, changed: int, size: int) -> str:
    """Return the hash of a file's content, cached until its modification time or size changes."""
    with open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]
