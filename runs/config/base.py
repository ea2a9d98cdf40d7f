"""What every config is: groups that were chosen, keys of its own, and what of it can change a result."""

import dataclasses
import functools
import hashlib
import json
import os
import re
import typing
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Self

from clustering.files.regular import open_regular
from clustering.foundation.errors import InputError
from clustering.foundation.parameters import AtLeast, mismatch
from clustering.foundation.plugins import dotted
from runs.config.groups import Choice
from runs.config.overrides import Grid, write

YAML_WORDS = r"true|false|yes|no|on|off|y|n|null|nan|inf"
PLACES = ("root",)  # fields of a group that say where files are; what is in them is fingerprinted apart


def key(default: Any, about: str, *, execution: bool = False) -> Any:
    """A top-level key. `execution`: it says how and where a run is done, and cannot change its result."""
    return dataclasses.field(default=default, metadata={"about": about, "execution": execution})


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """What every run has; fields without a key's note are its groups.

    Attributes:
        offered: the group that a field's options are of, where it is not named like the field.
    """

    offered: ClassVar[Mapping[str, str]] = {}

    seed: Annotated[int, AtLeast(0)] = key(0, "seed of everything drawn at random")
    device: str = key("auto", "auto, cpu, cuda or cuda:N", execution=True)
    results: str | None = key(None, "folder of results; null: $TRANSDUCE_RESULTS, else results/ here", execution=True)

    def __post_init__(self) -> None:
        hints = hints_of(type(self))
        for field in top_level(type(self)):
            value = getattr(self, field.name)
            problem = mismatch(value, hints[field.name])
            if problem:
                raise InputError(f"{field.name} must be {problem}, not {value!r}")
        if self.results == "":
            raise InputError("results= is empty; give a folder, or leave it out")
        if not re.fullmatch(r"auto|cpu|cuda(:\d+)?", self.device):
            raise InputError(f"device must be auto, cpu, cuda or cuda:N, not {self.device!r}")

    def choices(self) -> dict[str, Choice]:
        """The chosen option of each group."""
        return {name: getattr(self, name) for name in group_names(type(self))}

    def flat(self) -> dict[str, Any]:
        """Every key with its value, dotted: `{"strategy": "laplacianshot", "strategy.weight": 0.7}`.

        Values are null, booleans, numbers and text; a list is written as text. `strategy.name` stands beside
        `strategy` where a preset builds another plug-in than its own name says.
        """
        return {name: write(value) if isinstance(value, tuple) else value for name, value in self._items()}

    def as_json(self) -> dict[str, Any]:
        """`flat()` with lists as lists."""
        return dict(self._items())

    def shown(self) -> dict[str, str]:
        """`flat()` for a person's eyes: what tuning chooses is called `tuned`."""
        chosen = {f"{group}.{field}": "tuned" for group, choice in self.choices().items() for field in choice.grids}
        return {name: "null" if value is None else str(value) for name, value in self.flat().items()} | chosen

    def result_keys(self) -> dict[str, Any]:
        """`flat()` less what cannot change the result: execution keys, and folders (their content is hashed).

        A group counts by what it builds with which values, so that a preset and the same values typed by hand
        are the same run.
        """
        execution = {field.name for field in top_level(type(self)) if field.metadata["execution"]}
        kept = {
            name: value
            for name, value in self.flat().items()
            if name not in execution and name.partition(".")[2] not in (*PLACES, "name")
        }
        return kept | {group: dotted(choice.plugin) for group, choice in self.choices().items()}

    def arguments(self) -> list[str]:
        """What to type for this very config; `parse` reads it back."""
        return [f"{name}={write(value)}" for name, value in self._items() if not name.endswith(".name")]

    def to_yaml(self) -> str:
        """The config as a YAML file that `experiment=FILE.yaml` reads back."""
        lines = []
        for name, value in self._items():
            if not name.endswith(".name"):
                lines.append(f"{name}: {as_yaml(value)}\n")
        return "".join(lines)

    def _items(self) -> Iterable[tuple[str, Any]]:
        for group, choice in self.choices().items():
            yield group, choice.name
            if choice.plugin != choice.name:
                yield f"{group}.name", choice.plugin
            for name, value in choice.options.items():
                yield f"{group}.{name}", value
        for field in top_level(type(self)):
            yield field.name, getattr(self, field.name)

    def replace(self, **changes: Any) -> Self:
        """The same config with other values of top-level keys."""
        return dataclasses.replace(self, **changes)


_HINTS: dict[type, dict[str, Any]] = {}  # not `functools.cache`, for which mypy wants instances that can be hashed


def hints_of(schema: type[RunConfig]) -> dict[str, Any]:
    """The types of a schema's fields, read once: thousands of configs are made of one schema."""
    if schema not in _HINTS:
        _HINTS[schema] = typing.get_type_hints(schema, include_extras=True)
    return _HINTS[schema]


def group_names(schema: type[RunConfig]) -> list[str]:
    """Groups of a schema, in the order of its fields."""
    return [field.name for field in dataclasses.fields(schema) if not field.metadata]


def group_of(schema: type[RunConfig], key: str) -> str:
    """The group that a key of a schema chooses from."""
    return schema.offered.get(key, key)


def top_level(schema: type[RunConfig]) -> list["dataclasses.Field[Any]"]:
    """Top-level keys of a schema, in the order of its fields."""
    return [field for field in dataclasses.fields(schema) if field.metadata]


def identity(stage: str, **parts: Any) -> str:
    """The name of a stage's result: 16 hexadecimal digits of the SHA-256 of everything that can change it.

    Args:
        stage: "checkpoint", "features", "evaluation" or another.
        parts: result keys, fingerprints of inputs, of code: anything JSON can hold, in any order.

    Raises:
        TypeError, ValueError: for a part that JSON cannot hold, such as NaN.
    """
    canonical = json.dumps({"stage": stage, **parts}, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(canonical.encode()).hexdigest()[:16]


def as_yaml(value: Any) -> str:
    """A value in YAML: text as it would be typed, in quotes where YAML needs them."""
    if isinstance(value, Grid):
        return json.dumps(write(value), ensure_ascii=False)
    if isinstance(value, tuple):
        return "[" + ", ".join(as_yaml(item) for item in value) + "]"
    if not isinstance(value, str):
        return write(value)
    text = write(value).replace("${", r"\${")  # which would refer to another key
    if re.fullmatch(r"[A-Za-z_][\w.+/-]*", text, flags=re.ASCII) and not re.fullmatch(YAML_WORDS, text.lower()):
        return text
    control = r"[^\x20-\x7e\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]"
    return re.sub(control, lambda found: f"\\u{ord(found[0]):04x}", json.dumps(text, ensure_ascii=False))


def content(key: str, path: str, wanted: str) -> str:
    try:
        state = os.stat(path)
        return _digest(path, state.st_mtime_ns, state.st_size)
    except OSError as error:
        raise InputError(f"{key}={path}: cannot be read ({error.strerror}); give {wanted}") from error


@functools.lru_cache(maxsize=64)
def _digest(path: str, changed: int, size: int) -> str:
    """Hash of a file's content; of a file that has not changed it is known."""
    with open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]
