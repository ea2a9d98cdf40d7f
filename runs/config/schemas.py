"""The configs of the few-shot verbs, which inherit from each other, and the class of each verb's configs."""

import dataclasses
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import NoneType
from typing import Annotated, Any, Literal, Self, TypeVar

from clustering.foundation.errors import InputError, unknown
from clustering.foundation.parameters import AtLeast, Within
from clustering.foundation.plugins import dotted
from runs.config import groups
from runs.config.base import FILES, RunConfig, content, key
from runs.config.cluster import ClusterConfig
from runs.config.fair import FairConfig
from runs.config.groups import SAME, Choice
from runs.config.source import parameter_names

C = TypeVar("C", bound=RunConfig)
CROSSING = ("target", "base_mean")  # keys that only matter if the tasks are of another benchmark
# placeholders of the groups that are not used with given features
GIVEN = {
    "benchmark": Choice("benchmark", "features"),
    "backbone": Choice("backbone", "given"),
    "training": Choice("training", "none"),
}
TRAINS = ("training", "module", "trainer", "callbacks", "logger")  # keys of a training only
OF_IMAGES = ("checkpoint", "pretrained", "crop_pct", "module", "trainer", "callbacks", "logger")
TASKS = 10_000  # default number of tasks
TRAINER = "pytorch_lightning.trainer.trainer:Trainer"
NOT_RESULTS = (
    *("accelerator", "devices", "num_nodes", "strategy", "logger", "default_root_dir", "profiler", "detect_anomaly"),
    *("enable_progress_bar", "enable_model_summary", "enable_checkpointing", "log_every_n_steps", "plugins"),
)
"""Arguments of the Trainer that set how and where to train, and cannot change the result beyond rounding."""


def part_of(config: RunConfig, schema: type[C], **changed: Any) -> C:
    """Return the config of a schema with the keys that it shares with another config, and some changed ones."""
    names = [field.name for field in dataclasses.fields(schema) if hasattr(config, field.name)]
    return schema(**{name: getattr(config, name) for name in names} | changed)


@dataclass(frozen=True, kw_only=True)
class TrainConfig(RunConfig):
    """One training run: `transduce train`."""

    benchmark: Choice
    backbone: Choice
    training: Choice
    devices: Annotated[int, AtLeast(1)] = key(1, "number of GPUs or CPU processes of a training", execution=True)
    workers: Annotated[int, AtLeast(0)] = key(0, "processes that prepare a training's batches; 0: none", execution=True)
    checkpoint: str | None = key(
        None, "file of weights to use instead of training (.safetensors, .npz, .pth); null: train", counts=False
    )
    features: tuple[str, ...] | None = key(
        None, "files of features instead of images and a network: NOVEL, or NOVEL,BASE (.npz, .parquet)", counts=False
    )
    features_root: str | None = key(None, "folder of the files of features; null: the current folder", execution=True)
    prompt: Annotated[int, AtLeast(0)] | None = key(
        None, "number of a prompt, from 0, of a file of features with text_by_prompt; null: its text", counts=False
    )
    pretrained: str | None = key(
        None, "weights of a timm network, with timm's preprocessing; true: timm's own; FILE: of a file", counts=False
    )
    module: str | None = key(
        None, "LightningModule that trains, as FILE.py:CLASS; null: cross-entropy on base classes", counts=None
    )
    trainer: Mapping[str, Any] = key({}, "arguments of Lightning's Trainer, as trainer.max_epochs=5")
    callbacks: Mapping[str, Any] = key(
        {},
        "callbacks and their arguments, as callbacks.early_stopping.patience=10; an own one: callbacks.NAME._target_="
        "FILE.py:CLASS",
    )
    logger: Mapping[str, Any] = key({}, "arguments of the logger, as logger.log_model=false", execution=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if (word := (self.pretrained or "").lower()) in ("true", "false"):
            object.__setattr__(self, "pretrained", "true" if word == "true" else None)
        if self.given and None not in (self.checkpoint, self.pretrained):
            raise InputError("checkpoint= and pretrained= (with timm's preprocessing) both give weights; omit one")
        known = parameter_names(TRAINER) if self.trainer else []
        if known and (wrong := next((name for name in self.trainer if name not in known), None)):
            raise InputError(f"trainer.{wrong}: {unknown('argument of the Trainer', wrong, known)}")
        for name, arguments in self.callbacks.items():
            if not isinstance(arguments, (Mapping, bool, NoneType)):
                raise InputError(f"callbacks.{name}={arguments} must be true or false, or callbacks.{name}.KEY=value")
        if self.features is not None:
            self._use_features(self.features)
        elif name := next((name for name in ("prompt", "features_root") if getattr(self, name) is not None), ""):
            raise InputError(f"{name}= applies to given features; add features=FILE, or omit it")

    def _use_features(self, files: tuple[str, ...]) -> None:
        """Put placeholders for the images and the network, of which nothing may be set."""
        if not files:
            raise InputError("features= names no file; give one, or omit it")
        object.__setattr__(self, "features", tuple(dict.fromkeys(files)))
        for name in OF_IMAGES:
            if getattr(self, name, None) not in (None, {}):
                raise InputError(f"{name}= applies to images, but features= replaces them; omit one of the two")
        for group, stand_in in GIVEN.items():
            chosen = getattr(self, group)
            unset = groups.option(group, groups.default(group, groups.GROUPS["benchmark"].default))
            if chosen not in (stand_in, unset):
                raise InputError(f"{group}={chosen.name} and its keys have no effect with features=; omit them")
            object.__setattr__(self, group, stand_in)

    def choices(self) -> dict[str, Choice]:
        """Return the chosen option of each group, without groups that are not used with given features."""
        return {name: choice for name, choice in super().choices().items() if GIVEN.get(name) != choice}

    @property
    def feature_files(self) -> tuple[str, ...]:
        """Paths of the given files of features; empty without any."""
        return tuple(os.path.join(self.features_root or "", file) for file in self.features or ())

    @property
    def lacks_features(self) -> bool:
        """Whether features are given, and one of their files is not there."""
        return not all(os.path.exists(os.path.expanduser(file)) for file in self.feature_files)

    @property
    def given(self) -> bool:
        """Whether weights are given, so that no network is trained."""
        return self.checkpoint is not None or self.pretrained is not None

    @property
    def weights(self) -> str | None:
        """Identity of the given weights, from the content of their file; None without given weights."""
        if self.checkpoint is not None:
            return content("checkpoint", self.checkpoint, "a file of weights")
        if self.pretrained in (None, "true"):
            return self.pretrained and "timm"
        return f"timm {content('pretrained', self.pretrained, 'a file of weights, or true')}"

    def training_config(self) -> "TrainConfig":
        """Return the part of the config that determines the checkpoint."""
        return part_of(self, TrainConfig)

    def result_keys(self) -> dict[str, Any]:
        """Return the keys that can change the result; given weights replace the training, features are added apart."""
        below = {f"trainer.{name}" for name in NOT_RESULTS}
        kept = {name: value for name, value in super().result_keys().items() if name not in below}
        if self.module is not None and "module" in kept:
            kept["module"] = dotted(self.module)
        if self.given:
            kept.pop("training", None)
            kept["checkpoint"] = self.weights
        elif "training" in kept:
            kept["training"] = "training"  # all options are settings of the same class
        return kept

    def _items(self) -> Iterator[tuple[str, Any]]:
        for name, value in super()._items():
            if name.partition(".")[0] not in TRAINS or not self.given:  # with given weights there is no training
                yield name, value


@dataclass(frozen=True, kw_only=True)
class StrategyConfig(TrainConfig):
    """What an evaluation and a tuning have in common: a strategy, and tasks."""

    strategy: Choice
    sampler: Choice
    crop_pct: Annotated[float, Within(0.1, 1)] | None = key(
        None, "central crop at test time, as share of a side: 0.875 in the papers; null: none, or timm's", counts=None
    )
    batch: Annotated[int, AtLeast(1)] | None = key(None, "tasks per batch; null: chosen for the device", execution=True)

    @property
    def needs_images(self) -> bool:
        """Whether the strategy needs the images of its tasks and the network, in addition to features."""
        return bool(getattr(self.strategy.kind, "needs_images", False))


@dataclass(frozen=True, kw_only=True)
class EvaluateConfig(StrategyConfig):
    """One evaluation of one strategy on the tasks of one sampler: `transduce evaluate`."""

    target: Choice
    tasks: Annotated[int, Within(1, 10_000_000)] | None = key(
        None, f"number of tasks; null: {TASKS:,}, or all if there are fewer"
    )
    split: Literal["base", "validation", "novel"] = key(
        "novel", "classes of the tasks; with target=, novel means the target's novel classes"
    )
    base_mean: Literal["source", "target"] = key(
        "source", "mean that CL2N subtracts: of the training benchmark's base classes, or the target's, as public code"
    )
    tuning: str | None = key(
        None, "protocol that chooses the strategy's parameters: papers, joint, or FILE.yaml; null: none", counts=False
    )
    audit: tuple[Literal["best_permutation", "per_true_class", "directed_with_self"], ...] = key(
        (), "inflated accuracies to compute too: best_permutation, per_true_class, directed_with_self"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "audit", tuple(sorted(set(self.audit))))  # order does not matter
        if self.features is not None and self.target.name != SAME:
            raise InputError(f"target={self.target.name} applies to images, but features= replaces them; omit one")
        if self.base_mean == "target" and not self.crosses:
            raise InputError("base_mean=target needs novel classes of another benchmark; add target=NAME, or omit it")

    def result_keys(self) -> dict[str, Any]:
        """Return the keys that can change the result; a file of tasks is its content, the tuning is added apart."""
        kept = super().result_keys()
        for field in FILES:
            if (path := self.sampler.options.get(field)) is not None:
                kept[f"sampler.{field}"] = content(f"sampler.{field}", path, "a file of tasks")
        kept["tasks"] = self.count()
        return {name: value for name, value in kept.items() if self.crosses or name.partition(".")[0] not in CROSSING}

    @property
    def tuned(self) -> bool:
        """Whether tuning chooses some parameters of the strategy."""
        return bool(self.strategy.grids)

    def settled(self, values: Mapping[str, Any]) -> Self:
        """Return the config with the values chosen by tuning, and without tuning if there was nothing to choose."""
        return self.replace(strategy=self.strategy.at(values), tuning=self.tuning if self.tuned else None)

    def tuning_config(self) -> "TuneConfig":
        """Return the config of the tuning. With a target, tuning uses the benchmark of the training."""
        return part_of(self, TuneConfig)

    @property
    def crosses(self) -> bool:
        """Whether the tasks are of another benchmark than the network's training."""
        return self.target.name != SAME and self.split == "novel"

    def count(self, limit: int | None = None) -> int:
        """Return the number of tasks, if at most `limit` exist."""
        return self.tasks or min(TASKS, limit or TASKS)


@dataclass(frozen=True, kw_only=True)
class TuneConfig(StrategyConfig):
    """One tuning of a strategy's parameters: `transduce tune`. Its identity has the steps of the protocol."""

    tuning: str = key(
        "papers", "protocol with the values and classes of each step: papers, joint, or FILE.yaml", counts=False
    )
    novel_tasks: Annotated[int, Within(0, 10_000_000)] = key(
        0, "after the choice, evaluate the last step's values on this number of novel tasks", execution=True
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if any(field in self.sampler.options for field in FILES):
            raise InputError(f"sampler={self.sampler.name} has tasks of one split; tuning needs two; choose another")

    def trial(self, strategy: Choice, split: str, tasks: int) -> EvaluateConfig:
        """Return the config that evaluates one choice of values."""
        changed = {
            "strategy": strategy,
            "target": Choice("target", SAME),
            "split": split,
            "tasks": tasks,
            "tuning": None,
        }
        return part_of(self, EvaluateConfig, **changed)


SCHEMAS: Mapping[str, type[RunConfig]] = {
    "train": TrainConfig,
    "evaluate": EvaluateConfig,
    "tune": TuneConfig,
    "cluster": ClusterConfig,
    "fair": FairConfig,
}
