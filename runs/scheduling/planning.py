"""The plan of a command: stages and which of them are cached, runs, disk space, time. Computes no result."""

import functools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from runs.cache import Store
from runs.config.configs import EvaluateConfig, TrainConfig, TuneConfig
from runs.config.tuning_protocol import steps_of
from runs.console.output import duration
from runs.scheduling.durations import Durations
from runs.stages.lineage import Lineage, Lineages, Part, evaluate_name, short, train_name
from runs.track import Tracker

State = Literal["cached", "interrupted", "to do"]
RUN_BYTES = 100_000  # size of one evaluation: its rows in the record, its config, its accuracies task by task


@dataclass(frozen=True)
class PlannedStage:
    """One stage of a plan.

    Attributes:
        stage: "images", "checkpoint", "import" (of given weights), "features", "tuning" or "evaluation".
        name: name of the stage in messages.
        identity: identity of its result.
        state: "cached": will be reused; "interrupted": will be resumed.
        bytes: disk space that it will add; None if it is unknown before the images are read.
        runs: number of MLflow runs that it will create.
        seconds: estimated time from the speed of earlier runs; None if there is no similar run.
    """

    stage: str
    name: str
    identity: str
    state: State
    bytes: int | None
    runs: int = 0
    seconds: float | None = None

    @property
    def is_cached(self) -> bool:
        return self.state == "cached"


@dataclass(frozen=True)
class Plan:
    """Stages in the order of execution. `str` returns readable lines."""

    steps: tuple[PlannedStage, ...]

    @property
    def runs(self) -> int:
        """Number of MLflow runs that will be created."""
        return sum(step.runs for step in self.steps)

    @property
    def bytes(self) -> int:
        """Required disk space in bytes, without stages of unknown size."""
        return sum(step.bytes or 0 for step in self.steps)

    @property
    def seconds(self) -> float:
        """Estimated time in seconds of the stages to be run, without those that have no estimate."""
        return math.fsum(step.seconds or 0 for step in self.steps if not step.is_cached)

    @property
    def time(self) -> str:
        """Estimated time as text; states whether some stages have no estimate."""
        unknown = any(step.seconds is None and not step.is_cached for step in self.steps)
        if unknown and not self.seconds:
            return "unknown, because no similar run is recorded"
        return f"{'at least' if unknown else 'about'} {duration(self.seconds)} at the speed of earlier runs"

    def as_dict(self) -> dict[str, Any]:
        """Return the plan as a dictionary for JSON."""
        steps = [vars(step) for step in self.steps]
        return {"runs": self.runs, "bytes": self.bytes, "seconds": self.seconds, "steps": steps}

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        width = max((len(step.name) for step in self.steps), default=0)
        for step in self.steps:
            size = "" if step.is_cached else _size(step.bytes)
            name = f"{step.name:<{width}}"
            yield f"{step.stage:<10}  {name}  {step.identity}  {step.state:<11}  {size}".rstrip()
        cached = sum(step.is_cached for step in self.steps)
        stages = "1 stage" if len(self.steps) == 1 else f"{len(self.steps)} stages"
        yield f"{stages}, {cached} cached; {self.summary}"

    @property
    def summary(self) -> str:
        """Runs, disk space and time in one line."""
        unknown = any(step.bytes is None for step in self.steps)
        disk = f"{'at least ' if unknown else ''}{_size(self.bytes)}"
        return f"{self.runs} new runs; disk: {disk}; time: {self.time}"


def plan(configs: Sequence[TrainConfig], store: Store, tracker: Tracker | None = None) -> Plan:
    """Return the plan for these configs.

    Raises:
        InputError: the same errors as the stages, as far as they can be detected without computing a result.
    """
    planner = Planner(store, tracker or Tracker(store))
    return arranged([step for config in configs for step in planner.steps(config)])


def arranged(steps: Sequence[PlannedStage]) -> Plan:
    """Return the plan of several stages in the order of execution; duplicates are removed."""
    order = ["images", "checkpoint", "import", "features", "tuning", "evaluation"]
    once: dict[str, PlannedStage] = {}
    for step in steps:
        once.setdefault(f"{step.stage}{step.identity}{step.name}", step)
    return Plan(tuple(sorted(once.values(), key=lambda step: order.index(step.stage))))


class Planner:
    """Plans of many configs. Shared files and results are examined once."""

    def __init__(self, store: Store, tracker: Tracker) -> None:
        self.lineages = Lineages()
        self._store = store
        self._durations = Durations(store, tracker)
        self._peek = functools.cache(store.peek)

    def steps(self, config: TrainConfig) -> list[PlannedStage]:
        """Return all stages that a config needs; if its result exists, only the last stage.

        Raises:
            InputError: the same errors as `Lineage.of`.
        """
        lineage = self.lineages.of(config)
        results = [self._result(result) for result in _results(config, lineage)]
        if results and all(step.is_cached for step in results):
            return results[-1:]
        return [*self._sources(config, lineage, results), *results]

    def _result(self, result: "_Result") -> PlannedStage:
        """Return a stage: cached if the store has its result, else to be run."""
        if self._peek(result.stage, result.identity):
            return PlannedStage(result.stage, result.name, result.identity, "cached", 0)
        seconds = self._durations.evaluation(result.config, result.tasks)
        size = result.runs * RUN_BYTES
        is_partial = (self._store.cache("evaluation") / f"{result.identity}.partial").exists()
        state: State = "interrupted" if is_partial else "to do"
        return PlannedStage(result.stage, result.name, result.identity, state, size, result.runs, seconds)

    def _sources(
        self, config: TrainConfig, lineage: Lineage, results: Sequence[PlannedStage]
    ) -> Iterator[PlannedStage]:
        """Yield images, checkpoint and features; empty if features were given."""
        if lineage.feature_files:
            return
        name = train_name(config)
        has_given_weights = config.given
        splits = _splits(config, results)
        extracted = _extracted(config, lineage, splits)
        averaged = next((part for part in reversed(extracted) if part.split == "base"), None)  # the target's, if any
        parameters, dimension = _network(config.backbone.build(), lineage.look.channels, lineage.look.size)
        # Files during a training: the best weights, and the last weights with their momentum.
        state, needed = self._state("checkpoint", lineage.checkpoint, (1 if has_given_weights else 3) * parameters * 4)
        missing = [part for part in extracted if not self._peek("features", lineage.bank_of(part))]
        trained_on = (
            [] if has_given_weights or state == "cached" else [lineage.part("base"), lineage.part("validation")]
        )
        images = {_images(part): self._image_file(part) for part in (*trained_on, *extracted)}
        for images_key, source in dict.fromkeys((_images(part), part.source) for part in (*trained_on, *missing)):
            if images[images_key] is None:
                yield PlannedStage("images", images_key, source, "to do", None)
        runs = int(state == "to do" and not has_given_weights)
        seconds = 0.0 if has_given_weights else self._durations.training(config)
        yield PlannedStage(
            "import" if has_given_weights else "checkpoint", name, lineage.checkpoint, state, needed, runs, seconds
        )
        for part in extracted:
            pixels = part.benchmark.channels * part.benchmark.size**2
            size, key = images[_images(part)], lineage.bank_of(part)
            count = None if size is None else size // (pixels + 8)
            needed = None if count is None else count * (4 * dimension + 8)
            shown = part.split if part.benchmark is lineage.benchmark else _images(part)
            if part.split == "base" and "base" not in splits and part is averaged:
                shown += ", for their mean"
            state, needed = self._state("features", key, needed)
            seconds = self._durations.extraction(config, lineage.look.size, count)
            yield PlannedStage("features", f"{name} {shown}", key, state, needed, 0, seconds)

    def _state(self, kind: str, key: str, needed: int | None) -> tuple[State, int | None]:
        """Return the state of a cache folder, with the number of bytes that are still to be written."""
        if self._peek(kind, key):
            return "cached", 0
        return "interrupted" if (self._store.cache(kind) / f"{key}.partial").exists() else "to do", needed

    def _image_file(self, part: Part) -> int | None:
        """Return the size in bytes of the cached images of a part; None if they are not cached."""
        path = self._store.images / f"images-{part.benchmark.name}-{part.source}" / f"{part.split}.safetensors"
        return path.stat().st_size if path.exists() else None


class _Result(NamedTuple):
    """A stage whose result is in the record."""

    stage: str
    experiment: str
    name: str
    identity: str
    runs: int
    config: EvaluateConfig | TuneConfig
    tasks: int


def _results(config: TrainConfig, lineage: Lineage) -> Iterator[_Result]:
    """Yield the tuning of a config, if any, and its evaluation."""
    tuning = config.tuning_config() if isinstance(config, EvaluateConfig) and config.tuned else config
    if isinstance(tuning, TuneConfig):
        steps = steps_of(tuning.tuning, tuning.strategy)
        trials = [(math.prod(map(len, step.grids.values())), step.tasks) for step in steps]
        trials += [(trials[-1][0], tuning.novel_tasks)] if tuning.novel_tasks else []
        runs, tasks = 1 + sum(count for count, _ in trials), sum(count * tasks for count, tasks in trials)
        experiment = f"tune/{short(tuning.benchmark)}"
        yield _Result("tuning", experiment, evaluate_name(tuning), lineage.tuning(tuning), runs, tuning, tasks)
    if isinstance(config, EvaluateConfig):
        experiment = f"evaluate/{short(config.benchmark)}"
        identity, tasks = lineage.evaluation(config), config.count()
        yield _Result("evaluation", experiment, evaluate_name(config), identity, 1, config, tasks)


def splits_of(config: EvaluateConfig) -> list[str]:
    """Return the splits whose features a config needs if its values are not tuned yet; base is always included."""
    tuned = [step.split for step in steps_of(config.tuning, config.strategy)] if config.tuning and config.tuned else []
    return list(dict.fromkeys([*tuned, config.split]))


def _splits(config: TrainConfig, results: Sequence[PlannedStage]) -> list[str]:
    """Return the splits from which tasks are drawn."""
    splits: list[str] = []
    tunes = any(step.stage == "tuning" and not step.is_cached for step in results)
    if tunes and isinstance(config, (EvaluateConfig, TuneConfig)) and config.tuning:
        splits += [step.split for step in steps_of(config.tuning, config.strategy)]
    if isinstance(config, EvaluateConfig):
        splits.append(config.split)
    if isinstance(config, TuneConfig) and config.novel_tasks:
        splits.append("novel")
    return splits


def _extracted(config: TrainConfig, lineage: Lineage, splits: Sequence[str]) -> list[Part]:
    """Return the images of the needed features: of the splits, and of the base classes, whose mean CL2N subtracts."""
    parts = [lineage.part(split) for split in (["base", *splits] if splits else [])]
    if lineage.target_base and isinstance(config, EvaluateConfig) and config.base_mean == "target":
        parts.insert(1, lineage.target_base)
    return list({lineage.bank_of(part): part for part in parts}.values())


def _images(part: Part) -> str:
    return f"{part.benchmark.name} {part.split}"


@functools.cache
def _network(backbone: str, channels: int, size: int) -> tuple[int, int]:
    """Return the number of weights of a backbone, and the dimension of its features."""
    import torch

    from fsl.backbones import create_backbone

    with torch.random.fork_rng(devices=[]):  # keeps the state of the random generators
        built = create_backbone(backbone, channels=channels, size=size)
    dimension: int = built.feature_size  # type: ignore[assignment]
    return sum(weights.numel() for weights in built.state_dict().values()), dimension


def _size(count: int | None) -> str:
    if count is None:
        return "size unknown"
    value, units = float(count), iter(("B", "kB", "MB", "GB", "TB"))
    unit = next(units)
    while value >= 1000 and unit != "TB":
        value, unit = value / 1000, next(units)
    return f"{value:.0f} {unit}"
