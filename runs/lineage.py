"""What a config stands on: its benchmark, and the identities of the stages, known before anything is made."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from fsl.progress import Progress
from runs.config import Choice, EvaluateConfig, TrainConfig, identity
from runs.fingerprints import code_fingerprint
from runs.store import Store

if TYPE_CHECKING:
    from fsl.benchmarks.benchmark import Benchmark, Split
    from fsl.benchmarks.images import ImageSet


@dataclass(frozen=True)
class Lineage:
    """What a config stands on, known without making anything.

    Attributes:
        benchmark: the built benchmark.
        source: fingerprint of what its images are made from.
        checkpoint: identity of the training.
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
        config.training.build()
        benchmark = cast("Benchmark", config.benchmark.build())
        source = benchmark.source()
        look = [
            benchmark.channels,
            benchmark.size,
            *benchmark.mean,
            *benchmark.std,
            repr(benchmark.augmentation),
        ]
        keys = config.training_config().result_keys()
        return cls(benchmark, source, identity("checkpoint", config=keys, source=source, look=look))

    def bank(self, split: str) -> str:
        """Identity of the features of a split."""
        return identity("features", checkpoint=self.checkpoint, split=split, code=code_fingerprint("fsl.features"))

    def evaluation(self, config: EvaluateConfig) -> str:
        """Identity of an evaluation on these features."""
        code = code_fingerprint("fsl.evaluation", "fsl.tasks", type(config.strategy.build()).__module__)
        keys = config.result_keys()
        return identity("evaluation", config=keys, bank=self.bank(config.split), code=code)


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
        "training": config.training.name,
        "seed": config.seed,
        "data": lineage.source,
        "training_identity": lineage.checkpoint,
    }


def short(choice: Choice) -> str:
    """An option's name; of a plug-in given as `package.module:Class`, the class."""
    return choice.name.rpartition(":")[2]


def train_name(config: TrainConfig) -> str:
    """What a person calls the training, such as `omniglot/conv4 s0`."""
    return f"{short(config.benchmark)}/{short(config.backbone)} s{config.seed}"


def evaluate_name(config: EvaluateConfig) -> str:
    """What a person calls the evaluation, such as `laplacianshot 5w1s omniglot/conv4 s0`."""
    return f"{short(config.strategy)} {config.way}w{config.shot}s {train_name(config)}"
