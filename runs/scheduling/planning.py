"""What a command would do: stages, which of them are there already, runs, disk space, time. Makes nothing."""

import contextlib
import functools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from clustering.foundation.errors import InputError
from runs.config.configs import EvaluateConfig, TrainConfig, TuneConfig
from runs.config.tuning_protocol import steps_of
from runs.console.spans import duration
from runs.record.query import RunRow, finished
from runs.record.tracking import Tracker
from runs.scheduling.durations import Durations
from runs.stages.lineage import Lineage, Lineages, Part, evaluate_name, short, train_name
from runs.storage.store import Kind, Store

State = Literal["cached", "interrupted", "to do"]
RUN_BYTES = 100_000  # of one evaluation: its rows in the record, its config, its accuracies task by task


@dataclass(frozen=True)
class PlannedStage:
    """One stage of a plan.

    Attributes:
        stage: "images", "checkpoint", "import" (of given weights), "features", "tuning" or "evaluation".
        name: what a person calls it.
        identity: of its result.
        state: "cached": will be reused; "interrupted": will go on.
        bytes: what it will add on disk; None where that is not known before the images are read.
        runs: MLflow runs that will be made for it.
        seconds: how long it will take at the speed of earlier runs; None where nothing like it was run yet.
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
    """Steps in the order in which they are taken. `str` gives it as lines for a person."""

    steps: tuple[PlannedStage, ...]

    @property
    def runs(self) -> int:
        """How many MLflow runs will be made."""
        return sum(step.runs for step in self.steps)

    @property
    def bytes(self) -> int:
        """What is known of the disk space needed."""
        return sum(step.bytes or 0 for step in self.steps)

    @property
    def seconds(self) -> float:
        """What is known of the time needed."""
        return math.fsum(step.seconds or 0 for step in self.steps if not step.is_cached)

    @property
    def time(self) -> str:
        """The time needed, for a person."""
        unknown = any(step.seconds is None and not step.is_cached for step in self.steps)
        if unknown and not self.seconds:
            return "unknown, as nothing like it was run yet"
        return f"{'at least' if unknown else 'about'} {duration(self.seconds)} at the speed of earlier runs"

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
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
        yield f"{len(self.steps)} stages, {cached} cached; {self.summary}"

    @property
    def summary(self) -> str:
        """Runs, disk space and time in a line."""
        unknown = any(step.bytes is None for step in self.steps)
        disk = f"{'at least ' if unknown else ''}{_size(self.bytes)}"
        return f"{self.runs} new runs; disk: {disk}; time: {self.time}"


def plan(configs: Sequence[TrainConfig], store: Store, tracker: Tracker | None = None) -> Plan:
    """What these configs would do.

    Raises:
        InputError: as the stages themselves, as far as it can be known without making anything.
    """
    planner = Planner(configs, store, tracker or Tracker(store))
    return arranged([step for config in configs for step in planner.steps(config)])


def arranged(steps: Sequence[PlannedStage]) -> Plan:
    """The plan of steps of which some may be the same, in the order in which they are taken."""
    order = ["images", "checkpoint", "import", "features", "tuning", "evaluation"]
    once: dict[str, PlannedStage] = {}
    for step in steps:
        once.setdefault(f"{step.stage}{step.identity}{step.name}", step)
    return Plan(tuple(sorted(once.values(), key=lambda step: order.index(step.stage))))


class Planner:
    """What is there already of many configs, and what is to be done. They stand on the same things: each is looked at
    once, and the record is read once.

    Args:
        configs: all that will be asked for.
    """

    def __init__(self, configs: Sequence[TrainConfig], store: Store, tracker: Tracker) -> None:
        self.lineages = Lineages()
        self._configs = configs
        self._store = store
        self._tracker = tracker
        self._durations = Durations(store, tracker)
        self._peek = functools.cache(store.peek)

    def steps(self, config: TrainConfig) -> list[PlannedStage]:
        """All that a config needs; where its results are there, the last of them alone.

        Raises:
            InputError: as `Lineage.of`.
        """
        lineage = self.lineages.of(config)
        results = [self._result(result, lineage) for result in _results(config, lineage)]
        if results and all(step.is_cached for step in results):
            return results[-1:]
        return [*self._sources(config, lineage, results), *results]

    def _result(self, result: "_Result", lineage: Lineage) -> PlannedStage:
        """A stage that is in the record, on the very checkpoint that is in the store, or will make so many runs."""
        run = self._recorded.get(result.identity)
        if run and lineage.is_of_checkpoint(run.tags, self._peek):
            return PlannedStage(result.stage, result.name, result.identity, "cached", 0)
        seconds = self._durations.evaluation(result.config, result.tasks)
        size = result.runs * RUN_BYTES
        begun = (self._store.cache("evaluations") / f"{result.identity}.partial").exists()
        state: State = "interrupted" if begun else "to do"
        return PlannedStage(result.stage, result.name, result.identity, state, size, result.runs, seconds)

    @functools.cached_property
    def _recorded(self) -> Mapping[str, RunRow]:
        """The finished runs of all configs, by identity."""
        wanted: list[_Result] = []
        for config in self._configs:
            with contextlib.suppress(InputError):  # said where its steps are asked for
                wanted += _results(config, self.lineages.of(config))
        experiments, identities = {result.experiment for result in wanted}, {result.identity for result in wanted}
        return finished(self._tracker, experiments, identities) if wanted else {}

    def _sources(
        self, config: TrainConfig, lineage: Lineage, results: Sequence[PlannedStage]
    ) -> Iterator[PlannedStage]:
        """Images, checkpoint and features; none where features were given."""
        if lineage.feature_files:
            return
        name = train_name(config)
        given = config.given
        asked = _splits(config, results)
        extracted = _extracted(config, lineage, asked)
        averaged = next((part for part in reversed(extracted) if part.split == "base"), None)  # the target's, if any
        parameters, dimension = _network(config.backbone.build(), lineage.look.channels, lineage.look.size)
        # While it trains: the best weights, and the last ones with their momentum.
        state, needed = self._state("checkpoints", lineage.checkpoint, (1 if given else 3) * parameters * 4)
        missing = [part for part in extracted if not self._peek("features", lineage.bank_of(part))]
        trained_on = [] if given or state == "cached" else [lineage.part("base"), lineage.part("validation")]
        images = {_images(part): self._image_file(part) for part in (*trained_on, *extracted)}
        for what, source in dict.fromkeys((_images(part), part.source) for part in (*trained_on, *missing)):
            if images[what] is None:
                yield PlannedStage("images", what, source, "to do", None)
        runs = int(state == "to do" and not given)
        seconds = 0.0 if given else self._durations.training(config)
        yield PlannedStage("import" if given else "checkpoint", name, lineage.checkpoint, state, needed, runs, seconds)
        for part in extracted:
            pixels = part.benchmark.channels * part.benchmark.size**2
            size, key = images[_images(part)], lineage.bank_of(part)
            count = None if size is None else size // (pixels + 8)
            needed = None if count is None else count * (4 * dimension + 8)
            shown = part.split if part.benchmark is lineage.benchmark else _images(part)
            if part.split == "base" and "base" not in asked and part is averaged:
                shown += ", for their mean"
            state, needed = self._state("features", key, needed)
            seconds = self._durations.extraction(config, lineage.look.size, count)
            yield PlannedStage("features", f"{name} {shown}", key, state, needed, 0, seconds)

    def _state(self, kind: Kind, key: str, needed: int | None) -> tuple[State, int | None]:
        """Of a folder of the cache, with the bytes that are still to come."""
        if self._peek(kind, key):
            return "cached", 0
        return "interrupted" if (self._store.cache(kind) / f"{key}.partial").exists() else "to do", needed

    def _image_file(self, part: Part) -> int | None:
        """Bytes of the cached images of a part, None where they are not cached."""
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
    """The tuning that a config needs or is, and its evaluation."""
    asked = config.tuning_config() if isinstance(config, EvaluateConfig) and config.tuned else config
    if isinstance(asked, TuneConfig):
        steps = steps_of(asked.tuning, asked.strategy)
        trials = [(math.prod(map(len, step.grids.values())), step.tasks) for step in steps]
        trials += [(trials[-1][0], asked.novel_tasks)] if asked.novel_tasks else []
        runs, tasks = 1 + sum(count for count, _ in trials), sum(count * tasks for count, tasks in trials)
        experiment = f"tune/{short(asked.benchmark)}"
        yield _Result("tuning", experiment, evaluate_name(asked), lineage.tuning(asked), runs, asked, tasks)
    if isinstance(config, EvaluateConfig):
        experiment = f"evaluate/{short(config.benchmark)}"
        identity, tasks = lineage.evaluation(config), config.count()
        yield _Result("evaluation", experiment, evaluate_name(config), identity, 1, config, tasks)


def splits_of(config: EvaluateConfig) -> list[str]:
    """The splits whose features a config needs, where its values are yet to be tuned; base comes with each."""
    tuned = [step.split for step in steps_of(config.tuning, config.strategy)] if config.tuning and config.tuned else []
    return list(dict.fromkeys([*tuned, config.split]))


def _splits(config: TrainConfig, results: Sequence[PlannedStage]) -> list[str]:
    """The splits that tasks are made of."""
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
    """The images whose features are needed: of these splits, and of the base classes, whose mean CL2N subtracts."""
    parts = [lineage.part(split) for split in (["base", *splits] if splits else [])]
    if lineage.target_base and isinstance(config, EvaluateConfig) and config.base_mean == "target":
        parts.insert(1, lineage.target_base)
    return list({lineage.bank_of(part): part for part in parts}.values())


def _images(part: Part) -> str:
    return f"{part.benchmark.name} {part.split}"


@functools.cache
def _network(backbone: str, channels: int, size: int) -> tuple[int, int]:
    """How many weights a backbone has, and how many features it gives."""
    import torch

    from fsl.backbones import create_backbone

    with torch.random.fork_rng(devices=[]):  # a plan moves nobody's random numbers
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
