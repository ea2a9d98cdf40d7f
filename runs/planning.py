"""What a command would do: stages, which of them are there already, runs, disk space. Makes nothing."""

import functools
import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from runs.config import EvaluateConfig, TrainConfig, TuneConfig
from runs.lineage import Lineage, Part, evaluate_name, short, train_name
from runs.record import finished
from runs.store import Kind, Store
from runs.tracking import Tracker
from runs.tuning_protocol import steps_of

State = Literal["cached", "interrupted", "to do"]
RUN_BYTES = 100_000  # of one evaluation: its rows in the record, its config, its accuracies task by task


@dataclass(frozen=True)
class Step:
    """One stage of a plan.

    Attributes:
        stage: "images", "checkpoint", "import" (of given weights), "features", "tuning" or "evaluation".
        name: what a person calls it.
        identity: of its result.
        state: "cached": will be reused; "interrupted": will go on.
        bytes: what it will add on disk; None where that is not known before the images are read.
        runs: MLflow runs that will be made for it.
    """

    stage: str
    name: str
    identity: str
    state: State
    bytes: int | None
    runs: int = 0


@dataclass(frozen=True)
class Plan:
    """Steps in the order in which they are taken. `str` gives it as lines for a person."""

    steps: tuple[Step, ...]

    @property
    def runs(self) -> int:
        """How many MLflow runs will be made."""
        return sum(step.runs for step in self.steps)

    @property
    def bytes(self) -> int:
        """What is known of the disk space needed."""
        return sum(step.bytes or 0 for step in self.steps)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {"runs": self.runs, "bytes": self.bytes, "steps": [vars(step) for step in self.steps]}

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        width = max((len(step.name) for step in self.steps), default=0)
        for step in self.steps:
            size = "" if step.state == "cached" else _size(step.bytes)
            name = f"{step.name:<{width}}"
            yield f"{step.stage:<10}  {name}  {step.identity}  {step.state:<11}  {size}".rstrip()
        cached = sum(step.state == "cached" for step in self.steps)
        unknown = any(step.bytes is None for step in self.steps)
        yield (
            f"{len(self.steps)} stages, {cached} cached; {self.runs} new runs; "
            f"disk: {'at least ' if unknown else ''}{_size(self.bytes)}"
        )


def plan(configs: Sequence[TrainConfig], store: Store, tracker: Tracker | None = None) -> Plan:
    """What these configs would do. The record is read once for all of them.

    Raises:
        InputError: as the stages themselves, as far as it can be known without making anything.
    """
    asked = [(config, Lineage.of(config)) for config in configs]
    results = [list(_results(config, lineage)) for config, lineage in asked]
    wanted = [result for found in results for result in found]
    experiments, identities = {result.experiment for result in wanted}, {result.identity for result in wanted}
    look = _Look(store, finished(tracker or Tracker(store), experiments, identities).keys())
    steps: dict[str, Step] = {}
    for (config, lineage), found in zip(asked, results, strict=True):
        for step in _steps(config, lineage, [look.result(result) for result in found], look):
            steps.setdefault(f"{step.stage}{step.identity}{step.name}", step)
    order = ["images", "checkpoint", "import", "features", "tuning", "evaluation"]
    return Plan(tuple(sorted(steps.values(), key=lambda step: order.index(step.stage))))


class _Result(NamedTuple):
    """A stage whose result is in the record."""

    stage: str
    experiment: str
    name: str
    identity: str
    runs: int


def _results(config: TrainConfig, lineage: Lineage) -> Iterator[_Result]:
    """The tuning that a config needs or is, and its evaluation."""
    asked = config.tuning_config() if isinstance(config, EvaluateConfig) and config.tuned else config
    if isinstance(asked, TuneConfig):
        trials = [math.prod(map(len, step.grids.values())) for step in steps_of(asked.tuning, asked.strategy)]
        trials += trials[-1:] if asked.novel_tasks else []
        experiment = f"tune/{short(asked.benchmark)}"
        yield _Result("tuning", experiment, evaluate_name(asked), lineage.tuning(asked), 1 + sum(trials))
    if isinstance(config, EvaluateConfig):
        experiment = f"evaluate/{short(config.benchmark)}"
        yield _Result("evaluation", experiment, evaluate_name(config), lineage.evaluation(config), 1)


class _Look:
    """What is there already. Many configs stand on the same things: each is looked at once.

    Args:
        recorded: identities that are in the record.
    """

    def __init__(self, store: Store, recorded: Collection[str]) -> None:
        self.store = store
        self.recorded = recorded
        self.peek = functools.cache(store.peek)

    def result(self, result: _Result) -> Step:
        """A stage that is in the record, or will make so many runs."""
        if result.identity in self.recorded:
            return Step(result.stage, result.name, result.identity, "cached", 0)
        return Step(result.stage, result.name, result.identity, "to do", result.runs * RUN_BYTES, result.runs)

    def state(self, kind: Kind, key: str, needed: int | None) -> tuple[State, int | None]:
        """Of a folder of the cache, with the bytes that are still to come."""
        if self.peek(kind, key):
            return "cached", 0
        return "interrupted" if (self.store.cache(kind) / f"{key}.partial").exists() else "to do", needed

    def image_file(self, part: Part) -> int | None:
        """Bytes of the cached images of a part, None where they are not cached."""
        path = self.store.images / f"images-{part.benchmark.name}-{part.source}" / f"{part.split}.safetensors"
        return path.stat().st_size if path.exists() else None


def _steps(config: TrainConfig, lineage: Lineage, results: Sequence[Step], look: _Look) -> Iterator[Step]:
    """All that a config needs; where its results are there, the last of them alone."""
    if results and all(step.state == "cached" for step in results):
        yield results[-1]
        return
    name = train_name(config)
    given = config.checkpoint is not None
    extracted = _extracted(config, lineage, results)
    parameters, dimension = _network(config.backbone.build(), lineage.benchmark.channels, lineage.benchmark.size)
    # While it trains: the best weights, and the last ones with their momentum.
    state, needed = look.state("checkpoints", lineage.checkpoint, (1 if given else 3) * parameters * 4)
    missing = [part for part in extracted if not look.peek("features", lineage.bank_of(part))]
    trained_on = [] if given or state == "cached" else [lineage.part("base"), lineage.part("validation")]
    images = {_images(part): look.image_file(part) for part in (*trained_on, *extracted)}
    for what, source in dict.fromkeys((_images(part), part.source) for part in (*trained_on, *missing)):
        if images[what] is None:
            yield Step("images", what, source, "to do", None)
    runs = int(state == "to do" and not given)
    yield Step("import" if given else "checkpoint", name, lineage.checkpoint, state, needed, runs)
    for part in extracted:
        pixels = part.benchmark.channels * part.benchmark.size**2
        size, key = images[_images(part)], lineage.bank_of(part)
        needed = None if size is None else size // (pixels + 8) * (4 * dimension + 8)
        shown = part.split if part.benchmark is lineage.benchmark else _images(part)
        yield Step("features", f"{name} {shown}", key, *look.state("features", key, needed))
    yield from results


def _extracted(config: TrainConfig, lineage: Lineage, results: Sequence[Step]) -> list[Part]:
    """The images whose features are needed."""
    splits: list[str] = []
    tunes = any(step.stage == "tuning" and step.state != "cached" for step in results)
    if tunes and isinstance(config, (EvaluateConfig, TuneConfig)) and config.tuning:
        splits += [step.split for step in steps_of(config.tuning, config.strategy)]
    if isinstance(config, EvaluateConfig):
        splits.append(config.split)
    if isinstance(config, TuneConfig) and config.novel_tasks:
        splits.append("novel")
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
