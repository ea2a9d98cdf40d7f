"""What a run is: typed configs, how the command line makes them, and their identity.

    parse(EvaluateConfig, ["benchmark=omniglot", "strategy=simpleshot,laplacianshot", "shot=1,5"])  # four

Keys are top-level fields (`seed`), groups (`strategy`), fields of what a group chose (`strategy.weight`), or
such a field without its group (`weight`, `shot`) where only one chosen group has it. `experiment=NAME` puts the lines
of `configs/experiment/NAME.yaml` (or of a YAML file given by its path) before those of the command line.
Nothing here imports torch or MLflow; `Choice.build` does.
"""

import dataclasses
import functools
import hashlib
import json
import os
import re
import typing
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Self, TypeVar

from clustering.errors import InputError
from clustering.parameters import AtLeast, Within, mismatch
from runs.groups import SAME, freeze
from runs.groups import Choice as Choice
from runs.overrides import Grid, write

C = TypeVar("C", bound="TrainConfig")
YAML_WORDS = r"true|false|yes|no|on|off|y|n|null|nan|inf"
PLACES = ("root",)  # fields of a group that say where files are; what is in them is fingerprinted apart
FILES = ("path",)  # fields of a group that name a file: it counts by its content
CROSSING = ("target", "base_mean")  # keys that count only where the tasks are of another benchmark
TASKS = 10_000  # how many are drawn when nothing is said


def key(default: Any, about: str, *, execution: bool = False) -> Any:
    """A top-level key. `execution`: it says how and where a run is done, and cannot change its result."""
    return dataclasses.field(default=default, metadata={"about": about, "execution": execution})


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """One training run: `transduce train`."""

    benchmark: Choice
    backbone: Choice
    training: Choice
    seed: Annotated[int, AtLeast(0)] = key(0, "seed of everything drawn at random")
    checkpoint: str | None = key(
        None, "file of weights to use instead of training: .safetensors, .npz, .pth and the like; null: train"
    )
    device: str = key("auto", "auto, cpu, cuda or cuda:N", execution=True)
    results: str | None = key(None, "folder of results; null: $TRANSDUCE_RESULTS, else results/ here", execution=True)

    def __post_init__(self) -> None:
        hints = typing.get_type_hints(type(self), include_extras=True)
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

    def training_config(self) -> "TrainConfig":
        """The part that decides which checkpoint is used."""
        return TrainConfig(**{field.name: getattr(self, field.name) for field in dataclasses.fields(TrainConfig)})

    def flat(self) -> dict[str, Any]:
        """Every key with its value, dotted: `{"strategy": "laplacianshot", "strategy.weight": 0.7}`.

        Values are null, booleans, numbers and text; a list is written as text. `strategy.name` stands beside
        `strategy` where a preset builds another plug-in than its own name says.
        """
        return {name: write(value) if isinstance(value, tuple) else value for name, value in self._items()}

    def shown(self) -> dict[str, str]:
        """`flat()` for a person's eyes: what tuning chooses is called `tuned`."""
        chosen = {f"{group}.{field}": "tuned" for group, choice in self.choices().items() for field in choice.grids}
        return {name: "null" if value is None else str(value) for name, value in self.flat().items()} | chosen

    def result_keys(self) -> dict[str, Any]:
        """`flat()` less what cannot change the result: execution keys, and folders (their content is hashed).

        A group counts by what it builds with which values, so that a preset and the same values typed by hand
        are the same run. With a file of weights, that file's content counts, and no training.

        Raises:
            InputError: where the file of weights is not there.
        """
        execution = {field.name for field in top_level(type(self)) if field.metadata["execution"]}
        kept = {
            name: value
            for name, value in self.flat().items()
            if name not in execution and name.partition(".")[2] not in (*PLACES, "name")
        }
        for group, choice in self.choices().items():
            kept[group] = choice.plugin
        kept["training"] = "training"  # its options are settings of one class
        if self.checkpoint is None:
            del kept["checkpoint"]
        else:
            del kept["training"]
            kept["checkpoint"] = _content("checkpoint", self.checkpoint, "a file of weights")
        return kept

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
            if group == "training" and self.checkpoint is not None:
                continue  # nothing is trained
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


@dataclass(frozen=True, kw_only=True)
class EvaluateConfig(TrainConfig):
    """One evaluation of one strategy on the tasks of one sampler: `transduce evaluate`."""

    strategy: Choice
    sampler: Choice
    target: Choice
    tasks: Annotated[int, Within(1, 10_000_000)] | None = key(
        None, f"number of tasks; null: {TASKS:,}, or all where there are fewer"
    )
    split: Literal["base", "validation", "novel"] = key(
        "novel", "classes the tasks are made of; those of the target, if one is given, where this is novel"
    )
    base_mean: Literal["source", "target"] = key(
        "source", "mean that CL2N subtracts: of the base classes trained on, or of the target's, as public code does"
    )
    tuning: str | None = key(
        None, "how the strategy's values are chosen first: papers, or FILE.yaml; null: they are taken as given"
    )
    audit: tuple[Literal["best_permutation", "per_true_class", "directed_with_self"], ...] = key(
        (), "ways to measure too much, beside the accuracy: best_permutation, per_true_class, directed_with_self"
    )
    batch: Annotated[int, AtLeast(1)] | None = key(
        None, "tasks worked on at once; null: as many as suit the device", execution=True
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "audit", tuple(sorted(set(self.audit))))  # they are a set
        if self.base_mean == "target" and not self.crosses:
            raise InputError(
                "base_mean=target is for novel classes of another benchmark; add target=NAME, or leave it out"
            )

    def result_keys(self) -> dict[str, Any]:
        """As for training; a file of tasks counts by its content, and so do the tasks that null stands for.

        How the strategy's values were tuned is apart: see `runs.lineage.Lineage.tuning`.

        Raises:
            InputError: where the file of tasks is not there.
        """
        kept = super().result_keys()
        for field in FILES:
            if self.sampler.options.get(field) is not None:
                kept[f"sampler.{field}"] = _content(f"sampler.{field}", self.sampler.options[field], "a file of tasks")
        kept["tasks"] = self.count()
        del kept["tuning"]
        if not self.crosses:
            return {name: value for name, value in kept.items() if name.partition(".")[0] not in CROSSING}
        return kept

    @property
    def tuned(self) -> bool:
        """Whether some values of the strategy are to be chosen by tuning."""
        return bool(self.strategy.grids)

    def settled(self, values: Mapping[str, Any]) -> Self:
        """With the values that tuning chose, and without tuning where it has nothing to choose."""
        return self.replace(strategy=self.strategy.at(values), tuning=self.tuning if self.tuned else None)

    def tuning_config(self) -> "TuneConfig":
        """The part that decides which tuning is used; with a target, that of the benchmark trained on."""
        shared = {field.name for field in dataclasses.fields(TuneConfig)} & {f.name for f in dataclasses.fields(self)}
        return TuneConfig(**{name: getattr(self, name) for name in shared})

    @property
    def crosses(self) -> bool:
        """Whether the tasks are of another benchmark than the network."""
        return self.target.name != SAME and self.split == "novel"

    def count(self, limit: int | None = None) -> int:
        """How many tasks, where there are no more than `limit`."""
        return self.tasks or min(TASKS, limit or TASKS)


@dataclass(frozen=True, kw_only=True)
class TuneConfig(TrainConfig):
    """One choice of a strategy's values: `transduce tune`."""

    strategy: Choice
    sampler: Choice
    tuning: str = key("papers", "which values are tried on which classes: papers, or FILE.yaml")
    novel_tasks: Annotated[int, Within(0, 10_000_000)] = key(
        0, "after the choice, also try the last step's values on so many tasks of novel classes", execution=True
    )
    batch: Annotated[int, AtLeast(1)] | None = key(
        None, "tasks worked on at once; null: as many as suit the device", execution=True
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if any(field in self.sampler.options for field in FILES):
            raise InputError(
                f"sampler={self.sampler.name}: a file has tasks of one split, and tuning draws tasks of base and "
                "validation classes; choose another sampler, or leave tuning out"
            )

    def result_keys(self) -> dict[str, Any]:
        """As for training; a protocol counts by its steps, see `runs.lineage.Lineage.tuning`."""
        kept = super().result_keys()
        del kept["tuning"]
        return kept

    def trial(self, strategy: Choice, split: str, tasks: int) -> EvaluateConfig:
        """The evaluation of one choice of values."""
        given: dict[str, Any] = {field.name: getattr(self, field.name) for field in dataclasses.fields(TrainConfig)}
        given |= {"strategy": strategy, "sampler": self.sampler, "batch": self.batch}
        return EvaluateConfig(**given | {"target": Choice("target", SAME), "split": split, "tasks": tasks})


SCHEMAS: Mapping[str, type[TrainConfig]] = {"train": TrainConfig, "evaluate": EvaluateConfig, "tune": TuneConfig}


def group_names(schema: type[TrainConfig]) -> list[str]:
    """Groups of a schema, in the order of its fields."""
    return [field.name for field in dataclasses.fields(schema) if not field.metadata]


def top_level(schema: type[TrainConfig]) -> list["dataclasses.Field[Any]"]:
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


def parse(
    schema: type[C], arguments: Sequence[str], under: Mapping[str, str] | None = None, origin: str = ""
) -> list[C]:
    """Configs that a command line asks for: one, or the product of all keys with several values.

    The order is that of the keys as typed, the last one fastest. A field that only some of the chosen options
    have (`strategy=simpleshot,laplacianshot weight=0.1,1`) is varied for those; equal configs are given once.
    With `tuning` several values of a strategy's field make no configs of their own: tuning chooses from them.

    Args:
        under: values by key that the arguments go over, as they go over an experiment's.
        origin: whose values these are, for messages.

    Raises:
        InputError: names the key, group option or value that is wrong, and the nearest right one.
    """
    from runs.resolution import resolve

    return [schema(**fields) for fields in resolve(schema, arguments, under, origin)]


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


def _content(key: str, path: str, wanted: str) -> str:
    try:
        state = os.stat(path)
        return _digest(path, state.st_mtime_ns, state.st_size)
    except OSError as error:
        raise InputError(f"{key}={path}: cannot be read ({error.strerror}); give {wanted}") from error


@functools.lru_cache(maxsize=64)
def _digest(path: str, changed: int, size: int) -> str:
    """Hash of a file's content; of a file that has not changed it is known."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]


__all__ = [
    "SCHEMAS",
    "Choice",
    "EvaluateConfig",
    "TrainConfig",
    "TuneConfig",
    "as_yaml",
    "freeze",
    "group_names",
    "identity",
    "key",
    "parse",
    "top_level",
]
