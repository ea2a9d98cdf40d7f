"""What a command would do: stages, which of them are there already, runs, disk space. Makes nothing."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from runs.config import EvaluateConfig, TrainConfig, TuneConfig
from runs.lineage import Lineage, Part, evaluate_name, short, train_name
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
    """What these configs would do.

    Raises:
        InputError: as the stages themselves, as far as it can be known without making anything.
    """
    tracker = tracker or Tracker(store)
    steps: dict[str, Step] = {}
    for config in configs:
        lineage = Lineage.of(config)
        found = list(_steps(config, lineage, store, tracker))
        results = [step for step in found if step.stage in ("tuning", "evaluation")] or found[-1:]
        needed = any(step.state != "cached" for step in results)
        for step in found if needed else found[-1:]:
            steps.setdefault(f"{step.stage}{step.identity}{step.name}", step)
    order = ["images", "checkpoint", "import", "features", "tuning", "evaluation"]
    return Plan(tuple(sorted(steps.values(), key=lambda step: order.index(step.stage))))


def _steps(config: TrainConfig, lineage: Lineage, store: Store, tracker: Tracker) -> Iterator[Step]:
    name = train_name(config)
    given = config.checkpoint is not None
    tuning = _tuning(config, lineage, tracker)
    extracted = _extracted(config, lineage, tuning)
    parameters, dimension = _network(config, lineage)
    # While it trains: the best weights, and the last ones with their momentum.
    state, needed = _state(store, "checkpoints", lineage.checkpoint, (1 if given else 3) * parameters * 4)
    missing = [part for part in extracted if not store.peek("features", lineage.bank_of(part))]
    trained_on = [] if given or state == "cached" else [lineage.part("base"), lineage.part("validation")]
    images = {_images(part): _image_file(part, store) for part in (*trained_on, *extracted)}
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
        yield Step("features", f"{name} {shown}", key, *_state(store, "features", key, needed))
    if tuning:
        yield tuning
    if isinstance(config, EvaluateConfig):
        key = lineage.evaluation(config)
        yield _recorded(tracker, "evaluation", f"evaluate/{short(config.benchmark)}", evaluate_name(config), key, 1)


def _tuning(config: TrainConfig, lineage: Lineage, tracker: Tracker) -> Step | None:
    """The tuning that a config needs or is."""
    asked = config.tuning_config() if isinstance(config, EvaluateConfig) and config.tuned else config
    if not isinstance(asked, TuneConfig):
        return None
    trials = [math.prod(map(len, step.grids.values())) for step in steps_of(asked.tuning, asked.strategy)]
    trials += trials[-1:] if asked.novel_tasks else []
    name, key = evaluate_name(asked), lineage.tuning(asked)
    return _recorded(tracker, "tuning", f"tune/{short(asked.benchmark)}", name, key, 1 + sum(trials))


def _recorded(tracker: Tracker, stage: str, experiment: str, name: str, key: str, runs: int) -> Step:
    """A stage that is in the record, or will make so many runs."""
    if tracker.find(experiment, key):
        return Step(stage, name, key, "cached", 0)
    return Step(stage, name, key, "to do", runs * RUN_BYTES, runs)


def _extracted(config: TrainConfig, lineage: Lineage, tuning: Step | None) -> list[Part]:
    """The images whose features are needed."""
    splits: list[str] = []
    if tuning and tuning.state != "cached" and isinstance(config, (EvaluateConfig, TuneConfig)) and config.tuning:
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


def _state(store: Store, kind: Kind, key: str, needed: int | None) -> tuple[State, int | None]:
    if store.peek(kind, key):
        return "cached", 0
    return "interrupted" if (store.cache(kind) / f"{key}.partial").exists() else "to do", needed


def _image_file(part: Part, store: Store) -> int | None:
    """Bytes of the cached images of a part, None where they are not cached."""
    path = store.images / f"images-{part.benchmark.name}-{part.source}" / f"{part.split}.safetensors"
    return path.stat().st_size if path.exists() else None


def _network(config: TrainConfig, lineage: Lineage) -> tuple[int, int]:
    """How many weights the backbone has, and how many features it gives."""
    import torch

    from fsl.backbones import create_backbone

    size, channels = lineage.benchmark.size, lineage.benchmark.channels
    with torch.random.fork_rng(devices=[]):  # a plan moves nobody's random numbers
        backbone = create_backbone(config.backbone.build(), channels=channels, size=size)
    dimension: int = backbone.feature_size  # type: ignore[assignment]
    return sum(weights.numel() for weights in backbone.state_dict().values()), dimension


def _size(count: int | None) -> str:
    if count is None:
        return "size unknown"
    value, units = float(count), iter(("B", "kB", "MB", "GB", "TB"))
    unit = next(units)
    while value >= 1000 and unit != "TB":
        value, unit = value / 1000, next(units)
    return f"{value:.0f} {unit}"
