"""The config of each verb that computes; those of the few-shot verbs, which stand on one another, are written here."""

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Self

from clustering.foundation.errors import InputError
from clustering.foundation.parameters import AtLeast, Within
from runs.config import groups
from runs.config.base import RunConfig, content, key
from runs.config.cluster import ClusterConfig
from runs.config.fair import FairConfig
from runs.config.groups import SAME, Choice

FILES = ("path",)  # fields of a group that name a file: it counts by its content
CROSSING = ("target", "base_mean")  # keys that count only where the tasks are of another benchmark
CROP = "share of a side that a trained network is shown, enlarged: 0.875 in the papers; null: 1, or timm's share"
# what stands for the groups that have no part in features that are there already
GIVEN = {
    "benchmark": Choice("benchmark", "features"),
    "backbone": Choice("backbone", "given"),
    "training": Choice("training", "none"),
}
TASKS = 10_000  # how many are drawn when nothing is said


@dataclass(frozen=True, kw_only=True)
class TrainConfig(RunConfig):
    """One training run: `transduce train`."""

    benchmark: Choice
    backbone: Choice
    training: Choice
    devices: Annotated[int, AtLeast(1)] = key(
        1,
        "GPUs, or processes of the CPU, that divide each batch of a training: as 1, up to rounding and batch norm",
        execution=True,
    )
    checkpoint: str | None = key(
        None, "file of weights to use instead of training: .safetensors, .npz, .pth and the like; null: train"
    )
    features: tuple[str, ...] | None = key(
        None, "files of features to use instead of images and network, of novel classes and of others: NOVEL,BASE"
    )
    pretrained: str | None = key(
        None, "weights of a network of timm, shown images as timm shows them: true: timm's own; FILE: that file's"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        word = (self.pretrained or "").lower()
        if word in ("true", "false"):
            object.__setattr__(self, "pretrained", word if word == "true" else None)
        if self.checkpoint is not None and self.pretrained is not None:
            raise InputError(
                "checkpoint= and pretrained= both give weights; leave one out: checkpoint=FILE is of a network trained "
                "on the benchmark's images, pretrained= of one that gets them as timm shows its networks images"
            )
        if self.features is None:
            return
        if not self.features:
            raise InputError("features= names no file; give one, or leave it out")
        object.__setattr__(self, "features", tuple(dict.fromkeys(self.features)))
        for name in ("checkpoint", "pretrained", "crop_pct"):
            if getattr(self, name, None) is not None:
                raise InputError(f"{name}= is for images, and with features= there are none; leave one of the two out")
        for group, stand_in in GIVEN.items():
            chosen = getattr(self, group)
            if chosen not in (
                stand_in,
                groups.option(group, groups.default(group, groups.GROUPS["benchmark"].default)),
            ):
                raise InputError(
                    f"{group}={chosen.name} and its keys have no part in features that are there; leave them out"
                )
            object.__setattr__(self, group, stand_in)

    def choices(self) -> dict[str, Choice]:
        """The chosen option of each group; without those that have no part where features are given."""
        return {name: choice for name, choice in super().choices().items() if GIVEN.get(name) != choice}

    @property
    def given(self) -> bool:
        """Whether weights are given, so that nothing is trained."""
        return self.checkpoint is not None or self.pretrained is not None

    @property
    def weights(self) -> str | None:
        """Which weights are given: by the content of their file; None where there are none.

        Raises:
            InputError: where the file is not there.
        """
        if self.checkpoint is not None:
            return content("checkpoint", self.checkpoint, "a file of weights")
        if self.pretrained in (None, "true"):
            return self.pretrained and "timm"
        return f"timm {content('pretrained', self.pretrained, 'a file of weights, or true')}"

    def training_config(self) -> "TrainConfig":
        """The part that decides which checkpoint is used."""
        return TrainConfig(**{field.name: getattr(self, field.name) for field in dataclasses.fields(TrainConfig)})

    def result_keys(self) -> dict[str, Any]:
        """As for every run; with a file of weights, that file's content counts, and no training. Features that were
        given count apart, by their fingerprint: see `runs.stages.lineage.Lineage.bank`.

        Raises:
            InputError: where the file of weights is not there.
        """
        kept = super().result_keys()
        del kept["features"], kept["pretrained"]
        if self.features is not None:
            del kept["checkpoint"]
            return kept
        kept["training"] = "training"  # its options are settings of one class
        if self.given:
            del kept["training"]
            kept["checkpoint"] = self.weights
        else:
            del kept["checkpoint"]
        return kept

    def _items(self) -> Iterable[tuple[str, Any]]:
        for name, value in super()._items():
            if name.partition(".")[0] != "training" or not self.given:  # else nothing is trained
                yield name, value


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
    crop_pct: Annotated[float, Within(0.1, 1)] | None = key(None, CROP)
    tuning: str | None = key(
        None, "how the strategy's values are chosen first: papers, or FILE.yaml; null: they are taken as given"
    )
    task_seed: Annotated[int, AtLeast(0)] | None = key(
        None, "seed of the tasks, which trains no other network; null: seed, which does"
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
        if self.features is not None and self.target.name != SAME:
            raise InputError(
                f"target={self.target.name} is for images, and with features= there are none; leave one of the two out"
            )
        if self.base_mean == "target" and not self.crosses:
            raise InputError(
                "base_mean=target is for novel classes of another benchmark; add target=NAME, or leave it out"
            )

    def result_keys(self) -> dict[str, Any]:
        """As for training; a file of tasks counts by its content, and so do the tasks that null stands for.

        How the strategy's values were tuned is apart: see `runs.stages.lineage.Lineage.tuning`.

        Raises:
            InputError: where the file of tasks is not there.
        """
        kept = super().result_keys()
        for field in FILES:
            if self.sampler.options.get(field) is not None:
                kept[f"sampler.{field}"] = content(f"sampler.{field}", self.sampler.options[field], "a file of tasks")
        kept["tasks"] = self.count()
        del kept["tuning"]
        if self.seed_of_tasks == self.seed:
            del kept["task_seed"]
        if self.crop_pct is None:
            del kept["crop_pct"]  # of whole pictures, as before there was a choice
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
    def needs_images(self) -> bool:
        """Whether the strategy needs more than features: the images of its tasks, and their network."""
        return self.strategy.needs_images

    @property
    def crosses(self) -> bool:
        """Whether the tasks are of another benchmark than the network."""
        return self.target.name != SAME and self.split == "novel"

    @property
    def seed_of_tasks(self) -> int:
        """By which the tasks are drawn."""
        return self.seed if self.task_seed is None else self.task_seed

    def count(self, limit: int | None = None) -> int:
        """How many tasks, where there are no more than `limit`."""
        return self.tasks or min(TASKS, limit or TASKS)


@dataclass(frozen=True, kw_only=True)
class TuneConfig(TrainConfig):
    """One choice of a strategy's values: `transduce tune`."""

    strategy: Choice
    sampler: Choice
    crop_pct: Annotated[float, Within(0.1, 1)] | None = key(None, CROP)
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

    @property
    def needs_images(self) -> bool:
        """As of an evaluation."""
        return self.strategy.needs_images

    def result_keys(self) -> dict[str, Any]:
        """As for training; a protocol counts by its steps, see `runs.stages.lineage.Lineage.tuning`."""
        kept = super().result_keys()
        del kept["tuning"]
        if self.crop_pct is None:
            del kept["crop_pct"]
        return kept

    def trial(self, strategy: Choice, split: str, tasks: int) -> EvaluateConfig:
        """The evaluation of one choice of values."""
        given: dict[str, Any] = {field.name: getattr(self, field.name) for field in dataclasses.fields(TrainConfig)}
        given |= {"strategy": strategy, "sampler": self.sampler, "batch": self.batch, "crop_pct": self.crop_pct}
        return EvaluateConfig(**given | {"target": Choice("target", SAME), "split": split, "tasks": tasks})


SCHEMAS: Mapping[str, type[RunConfig]] = {
    "train": TrainConfig,
    "evaluate": EvaluateConfig,
    "tune": TuneConfig,
    "cluster": ClusterConfig,
    "fair": FairConfig,
}
