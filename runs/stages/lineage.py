"""What a config stands on: its benchmark, and the identities of the stages, known before anything is made."""

import dataclasses
import json
import pathlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from clustering.foundation.code import code_fingerprint
from clustering.foundation.errors import InputError
from fsl.progress import Progress
from runs.config.configs import Choice, ClusterConfig, EvaluateConfig, FairConfig, TrainConfig, TuneConfig, identity
from runs.config.tuning_protocol import RULE, steps_of
from runs.stages.given_features import given_fingerprint
from runs.storage.store import Entry, Kind, Store

if TYPE_CHECKING:
    from fsl.benchmarks.benchmark import Benchmark, Decoded, Split
    from fsl.benchmarks.images import ImageSet
    from fsl.weights.pretrained import Look


class Part(NamedTuple):
    """Images of one kind of classes.

    Attributes:
        benchmark: whose they are.
        split: which of its classes.
        source: fingerprint of what the benchmark's images are made from.
    """

    benchmark: "Benchmark"
    split: str
    source: str


@dataclass(frozen=True)
class Lineage:
    """What a config stands on, known without making anything.

    Attributes:
        trained_on: the built benchmark that the network was trained on; None where features were given.
        source: fingerprint of what its images are made from.
        checkpoint: identity of the training, or of the weights that were given.
        shown: what images the network takes; None where features were given.
        target: the benchmark of the novel classes, where it is another one, and the fingerprint of its images.
        crop_pct: share of a side that the network is shown; None: whole pictures.
        feature_files: in the place of all these, where features were given.
    """

    trained_on: "Benchmark | None"
    source: str
    checkpoint: str
    shown: "Look | None"
    target: tuple["Benchmark", str] | None = None
    crop_pct: float | None = None
    feature_files: tuple[str, ...] = ()

    @property
    def benchmark(self) -> "Benchmark":
        """The built benchmark that the network was trained on; not of features that were given."""
        if self.trained_on is None:
            raise LookupError("features that were given are of no benchmark")
        return self.trained_on

    @property
    def look(self) -> "Look":
        """What images the network takes; not of features that were given."""
        if self.shown is None:
            raise LookupError("features that were given are of no network here")
        return self.shown

    @classmethod
    def of(cls, config: TrainConfig) -> "Lineage":
        """Builds benchmark and training, which checks their values.

        Raises:
            InputError: a wrong value, or images that are not there.
        """
        if config.features is not None:
            return cls.on(config, "")
        benchmark, target = cast("Benchmark", config.benchmark.build()), _target(config)
        if target is None:
            return cls.on(config, _source(benchmark))
        return cls.on(config, _source(benchmark, "benchmark"), _source(target, "target"))

    @classmethod
    def on(cls, config: TrainConfig, source: str, target_source: str = "", *, anywhere: bool = False) -> "Lineage":
        """The lineage of a config on images of these identities, which need not be here.

        Args:
            anywhere: it is not of this machine: where the precision of a training is left to the machine, float32
                stands for it.
        """
        if config.features is not None:
            if isinstance(config, EvaluateConfig | TuneConfig) and config.needs_images:
                raise InputError(
                    f"strategy={config.strategy.name} trains the network on the images of each task, and with "
                    "features= there are none; give benchmark= instead, or choose another strategy"
                )
            return cls(None, "", "", None, feature_files=config.features)
        lineage, target = cls._without_target(config, source, anywhere), _target(config)
        if isinstance(config, EvaluateConfig | TuneConfig) and config.crop_pct is not None:
            lineage = dataclasses.replace(lineage, crop_pct=config.crop_pct)
        return dataclasses.replace(lineage, target=(target, target_source)) if target else lineage

    @classmethod
    def _without_target(cls, config: TrainConfig, source: str, anywhere: bool) -> "Lineage":
        from fsl.backbones import backbone_code
        from fsl.training.base import RECIPE, precision_of
        from fsl.weights import foreign as foreign_weights
        from fsl.weights.pretrained import Look, look_of, weights_place

        training = config.training.build()
        benchmark = cast("Benchmark", config.benchmark.build())
        name = config.backbone.build()
        seen = Look(benchmark.channels, benchmark.size, benchmark.mean, benchmark.std)
        if config.pretrained is not None:
            seen = look_of(name)
        look: list[Any] = [seen.channels, seen.size, *seen.mean, *seen.std]
        code = backbone_code(name)
        if config.given:
            given = [config.weights, config.backbone.plugin, foreign_weights.RECIPE]
            if config.pretrained is not None:
                given += [seen.interpolation, weights_place(name) if config.pretrained == "true" else ""]
            key = identity("checkpoint", given=given, source=source, look=look, code=code)
            return cls(benchmark, source, key, seen, crop_pct=seen.crop if seen.crop < 1 else None)
        look = [*look, repr(benchmark.augmentation)]
        keys = config.training_config().result_keys()
        left_open = anywhere and training.precision == "auto"
        precision = "float32" if left_open else precision_of(training, config.device)
        return cls(
            benchmark,
            source,
            identity(
                "checkpoint", config=keys, source=source, look=look, code=code, precision=precision, recipe=RECIPE
            ),
            seen,
        )

    def part(self, split: str) -> Part:
        """The images of a split: those of the target, if there is one, for the novel classes."""
        if self.target and split == "novel":
            return Part(self.target[0], split, self.target[1])
        return Part(self.benchmark, split, self.source)

    @property
    def target_base(self) -> Part | None:
        """The images of the target's base classes, if there is a target."""
        return Part(self.target[0], "base", self.target[1]) if self.target else None

    def is_of_checkpoint(self, noted: Mapping[str, Any], peek: Callable[[Kind, str], Entry | None]) -> bool:
        """Whether what says this of itself was made with the checkpoint that is in the store: a training by force makes
        another one of the same identity.

        Args:
            noted: tags of a run, or facts of a folder. peek: looks into the store.
        """
        trained = peek("checkpoints", self.checkpoint)
        return trained is None or noted.get("checkpoint") == trained.fingerprint

    def bank(self, split: str) -> str:
        """Identity of the features of a split."""
        if self.feature_files:
            return identity("features", given=given_fingerprint(self.feature_files, split))
        return self.bank_of(self.part(split))

    def bank_of(self, part: Part) -> str:
        """Identity of the features of a part; the code of the backbone is in the checkpoint's."""
        foreign = {} if part.source == self.source else {"images": part.source}  # the checkpoint's has its own
        crop: dict[str, Any] = {}
        if self.crop_pct is not None:
            crop = {"crop_pct": self.crop_pct, "crop_code": code_fingerprint("fsl.features.center_crop")}
        code = code_fingerprint("fsl.features.bank")
        return identity("features", checkpoint=self.checkpoint, split=part.split, code=code, **foreign, **crop)

    def evaluation(self, config: EvaluateConfig) -> str:
        """Identity of an evaluation on these features; known before what it tunes is chosen."""
        tuned = {"tuning": self.tuning(config.tuning_config())} if config.tuned else {}
        keys, code = config.result_keys(), _code(config)
        return identity("evaluation", config=keys, bank=self.bank(config.split), code=code, **tuned)

    def tuning(self, config: TuneConfig) -> str:
        """Identity of a choice of a strategy's values."""
        steps = steps_of(config.tuning, config.strategy)
        return identity(
            "tuning",
            config=config.result_keys(),
            steps=[step.as_dict() for step in steps],
            banks={step.split: self.bank(step.split) for step in steps},
            rule=RULE,
            code=_code(config),
        )


class Lineages:
    """Lineages of many configs: of one training there are many evaluations, and its images are looked at once."""

    def __init__(self) -> None:
        self._known: dict[str, Lineage | InputError] = {}

    def of(self, config: TrainConfig) -> Lineage:
        """As `Lineage.of`."""
        crosses = isinstance(config, EvaluateConfig) and config.crosses
        crop = config.crop_pct if isinstance(config, EvaluateConfig | TuneConfig) else None
        target = [config.target.plugin, dict(config.target.options)] if crosses else []  # type: ignore[attr-defined]
        key = json.dumps([config.training_config().flat(), target, crop], sort_keys=True)
        if key not in self._known:
            try:
                self._known[key] = Lineage.of(config)
            except InputError as error:
                self._known[key] = error
        found = self._known[key]
        if isinstance(found, InputError):
            raise found
        return found


def recipe(config: EvaluateConfig, source: str, target_source: str = "") -> str:
    """What evaluations on these images have in common that differ by their seed, their machine or their audits alone:
    the identity of the one of seed 0, of no machine, so that what a GPU has made counts on a computer without one."""
    first = config.replace(seed=0, task_seed=None, audit=())
    return Lineage.on(first, source, target_source, anywhere=True).evaluation(first)


def _code(config: EvaluateConfig | TuneConfig) -> str:
    """Fingerprint of what computes accuracies with that strategy on that sampler's tasks."""
    plugins = [choice.kind.__module__ for choice in (config.strategy, config.sampler)]
    return code_fingerprint("fsl.evaluation.episodic", "fsl.tasks", *plugins)


def _source(benchmark: "Benchmark", group: str = "") -> str:
    """Fingerprint of what a benchmark's images are made from.

    Args:
        group: whose `root` a missing folder is to be given as, where there are two.

    Raises:
        InputError: images that are not there.
    """
    from fsl.benchmarks.images import images_source

    try:
        return images_source(benchmark)
    except InputError as error:
        if not group:
            raise
        raise InputError(str(error).replace(" root=", f" {group}.root=")) from error


def _target(config: TrainConfig) -> "Benchmark | None":
    if isinstance(config, EvaluateConfig) and config.crosses:
        return cast("Benchmark", config.target.build())
    return None


def images_of(
    benchmark: "Benchmark", split: str, store: Store, progress: Progress, found: "Decoded | None" = None
) -> "ImageSet":
    """Images of a split from the store's cache, decoded where they are not there; `found` is what was read of them."""
    from fsl.benchmarks.images import open_images

    store.prepare()
    with store.watched():
        return open_images(benchmark, cast("Split", split), store.images, progress, found)


def labels_of(part: Part, store: Store, progress: Progress) -> "ImageSet | Decoded":
    """A part's labels and class names, with its images if they are in the cache: nothing is written that is not."""
    from fsl.benchmarks.images import images_file, read_split

    split = cast("Split", part.split)
    if images_file(part.benchmark, split, store.images).exists():
        return images_of(part.benchmark, split, store, progress)
    return read_split(part.benchmark, split, progress)


def common_tags(config: TrainConfig, lineage: Lineage) -> dict[str, Any]:
    """Tags of every run that stands on a training."""
    return {
        "benchmark": config.benchmark.name,
        "backbone": config.backbone.name,
        "training": "" if config.given else config.training.name,
        "weights": config.weights or "",
        "seed": config.seed,
        "data": lineage.source,
        **({"target_data": lineage.target[1]} if lineage.target else {}),
        "training_identity": lineage.checkpoint,
    }


def short(choice: Choice) -> str:
    """An option's name; of a plug-in given as `package.module:Class`, the class."""
    return short_name(choice.name)


def short_name(name: str) -> str:
    """The class of `package.module:Class`, else the name as it is."""
    return name.rpartition(":")[2]


def train_name(config: TrainConfig) -> str:
    """What a person calls the training, such as `omniglot/conv4 s0`; of what was given, its file in conv4's place."""
    return f"{short(config.benchmark)}/{weights_name(config) or short(config.backbone)} s{config.seed}"


def weights_name(config: TrainConfig) -> str:
    """The name of the file of weights, or of features, that was given, without its endings; empty where none was."""
    if config.pretrained is not None:
        return f"{short(config.backbone)} pretrained"
    given = config.features[0] if config.features else config.checkpoint or ""
    return pathlib.PurePath(given).name.removesuffix(".tar").rpartition(".")[0]


def cluster_name(config: ClusterConfig | FairConfig) -> str:
    """What a person calls the clustering, such as `slk_mean_shift digits s0`."""
    return f"{short(config.method)} {short(config.dataset)} s{config.seed}"


def evaluate_name(config: EvaluateConfig | TuneConfig) -> str:
    """What a person calls the evaluation, such as `laplacianshot 5w1s glyphs/conv4 on omniglot s0`."""
    network, _, seed = train_name(config).rpartition(" ")
    if isinstance(config, EvaluateConfig) and config.crosses:
        network += f" on {short(config.target)}"
    tasks = f" t{config.task_seed}" if isinstance(config, EvaluateConfig) and config.task_seed is not None else ""
    return f"{short(config.strategy)} {config.sampler.build().label} {network} {seed}{tasks}"
