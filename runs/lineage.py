"""What a config stands on: its benchmark, and the identities of the stages, known before anything is made."""

import pathlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from clustering.code import code_fingerprint
from fsl.progress import Progress
from runs.config import Choice, EvaluateConfig, TrainConfig, TuneConfig, identity
from runs.store import Store
from runs.tuning_protocol import RULE, steps_of

if TYPE_CHECKING:
    from fsl.benchmarks.benchmark import Benchmark, Split
    from fsl.benchmarks.images import ImageSet


@dataclass(frozen=True)
class Lineage:
    """What a config stands on, known without making anything.

    Attributes:
        benchmark: the built benchmark.
        source: fingerprint of what its images are made from.
        checkpoint: identity of the training, or of the weights that were given.
    """

    benchmark: "Benchmark"
    source: str
    checkpoint: str

    @classmethod
    def of(cls, config: TrainConfig) -> "Lineage":
        """Builds benchmark and training, which checks their values.

        Raises:
            InputError: a wrong value, or images that are not there.
        """
        from fsl.benchmarks.images import images_source

        return cls.on(config, images_source(cast("Benchmark", config.benchmark.build())))

    @classmethod
    def on(cls, config: TrainConfig, source: str) -> "Lineage":
        """The lineage of a config on images of that identity, which need not be here."""
        from fsl.backbones import backbone_code
        from fsl.training import RECIPE, precision_of

        training = config.training.build()
        benchmark = cast("Benchmark", config.benchmark.build())
        look: list[Any] = [benchmark.channels, benchmark.size, *benchmark.mean, *benchmark.std]
        code = backbone_code(config.backbone.build())
        if config.checkpoint is not None:
            given = [
                config.result_keys()["checkpoint"],
                config.backbone.plugin,
                code_fingerprint("fsl.foreign_weights"),
            ]
            return cls(benchmark, source, identity("checkpoint", given=given, source=source, look=look, code=code))
        look = [*look, repr(benchmark.augmentation)]
        keys = config.training_config().result_keys()
        precision = precision_of(training, config.device)
        return cls(
            benchmark,
            source,
            identity(
                "checkpoint", config=keys, source=source, look=look, code=code, precision=precision, recipe=RECIPE
            ),
        )

    def bank(self, split: str) -> str:
        """Identity of the features of a split; the code of the backbone is in the checkpoint's."""
        return identity("features", checkpoint=self.checkpoint, split=split, code=code_fingerprint("fsl.features"))

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


def _code(config: EvaluateConfig | TuneConfig) -> str:
    """Fingerprint of what computes accuracies with that strategy on that sampler's tasks."""
    plugins = [choice.kind.__module__ for choice in (config.strategy, config.sampler)]
    return code_fingerprint("fsl.evaluation", "fsl.tasks", *plugins)


def images_of(benchmark: "Benchmark", split: str, store: Store, progress: Progress) -> "ImageSet":
    """Images of a split from the store's cache, decoded where they are not there."""
    from fsl.benchmarks.images import open_images

    store.prepare()
    with store.watched():
        return open_images(benchmark, cast("Split", split), store.images, progress)


def common_tags(config: TrainConfig, lineage: Lineage) -> dict[str, Any]:
    """Tags of every run that stands on a training."""
    return {
        "benchmark": config.benchmark.name,
        "backbone": config.backbone.name,
        "training": config.training.name if config.checkpoint is None else "",
        "weights": "" if config.checkpoint is None else config.result_keys()["checkpoint"],
        "seed": config.seed,
        "data": lineage.source,
        "training_identity": lineage.checkpoint,
    }


def short(choice: Choice) -> str:
    """An option's name; of a plug-in given as `package.module:Class`, the class."""
    return short_name(choice.name)


def short_name(name: str) -> str:
    """The class of `package.module:Class`, else the name as it is."""
    return name.rpartition(":")[2]


def train_name(config: TrainConfig) -> str:
    """What a person calls the training, such as `omniglot/conv4 s0`; of given weights, their file in conv4's place."""
    return f"{short(config.benchmark)}/{weights_name(config) or short(config.backbone)} s{config.seed}"


def weights_name(config: TrainConfig) -> str:
    """The name of the file of weights that was given, without its endings; empty where none was."""
    return pathlib.PurePath(config.checkpoint or "").name.removesuffix(".tar").rpartition(".")[0]


def evaluate_name(config: EvaluateConfig | TuneConfig) -> str:
    """What a person calls the evaluation, such as `laplacianshot 5w1s omniglot/conv4 s0`."""
    return f"{short(config.strategy)} {config.sampler.build().label} {train_name(config)}"
