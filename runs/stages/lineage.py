"""What a config depends on: its benchmark, and the keys of its stages, known before any stage runs."""

import json
import pathlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from clustering.foundation.errors import InputError
from clustering.foundation.progress import Progress
from runs.cache import Store, key, revisions
from runs.config.configs import Choice, ClusterConfig, EvaluateConfig, FairConfig, TrainConfig, TuneConfig
from runs.config.tuning_protocol import RULE, steps_of
from runs.record.tracked_run import DataUsed
from runs.stages.given_features import given_fingerprint

if TYPE_CHECKING:
    from fsl.benchmarks.benchmark import Benchmark, Decoded, Split
    from fsl.benchmarks.images import ImageSet

# Increased with every change of these computations that changes results, around the classes of a config: trainings,
# given weights, features; tasks and scores; trials and selection; paths of weights.
TRAINING, WEIGHTS, FEATURES = 2, 1, 1
EVALUATION, CLUSTERING, FAIR = 1, 1, 1


def revisions_of(config: EvaluateConfig | TuneConfig | ClusterConfig | FairConfig) -> dict[str, int | str]:
    """Return the revisions of a config's classes and of the code around them: part of the key of its result, and the
    tag `revisions` of its runs, by which tables match runs to cells."""
    if isinstance(config, EvaluateConfig | TuneConfig):
        return revisions(strategy=config.strategy.outline, sampler=config.sampler.outline, evaluation=EVALUATION)
    around = {"fair": FAIR} if isinstance(config, FairConfig) else {"clustering": CLUSTERING}
    return revisions(method=config.method.outline, dataset=config.dataset.outline, **around)


class Part(NamedTuple):
    """The images of one split of a benchmark."""

    benchmark: "Benchmark"
    split: str
    source: str  # fingerprint of the source files of the benchmark's images


@dataclass(frozen=True)
class Lineage:
    """What a config depends on, known before any stage runs."""

    benchmark: Any  # the built benchmark on which the network was trained; None if the config gives features
    source: str = ""  # fingerprint of the source files of its images
    checkpoint: str = ""  # key of the training or of the given weights
    look: Any = None  # the `Look` of the network's input images; None if the config gives features
    target: Part | None = None  # the novel classes, if they are of another benchmark
    crop_pct: float | None = None  # fraction of the image side kept by the centre crop; None: no crop
    feature_files: tuple[str, ...] = ()  # the given files of features, which replace all other fields
    prompt: int | None = None  # number of the prompt of the class names in these files; None: their text

    @classmethod
    def of(cls, config: TrainConfig) -> "Lineage":
        """Build benchmark and training, which checks their values, and return the lineage.

        Raises:
            InputError: a wrong value, or missing images.
        """
        from fsl.backbones import BACKBONES
        from fsl.training import MODULES
        from fsl.weights.pretrained import Look, look_of, weights_place

        if config.features is not None:
            if getattr(config, "needs_images", False):
                raise InputError(
                    f"strategy={config.choices()['strategy'].name} trains the network on the images of each task, and "
                    "with features= there are none; give benchmark= instead, or choose another strategy"
                )
            return cls(None, feature_files=config.feature_files, prompt=config.prompt)
        config.training.build()  # checks its values
        benchmark, name, target = cast("Benchmark", config.benchmark.build()), config.backbone.build(), None
        source = _source(benchmark, "benchmark" if _crosses(config) else "")
        if _crosses(config):
            other = config.choices()["target"].build()
            target = Part(other, "novel", _source(other, "target"))
        seen = Look(benchmark.channels, benchmark.size, benchmark.mean, benchmark.std)
        seen = seen if config.pretrained is None else look_of(name)
        look: list[Any] = [seen.channels, seen.size, *seen.mean, *seen.std]
        crop = getattr(config, "crop_pct", None)
        if config.given:
            given = {"weights": config.weights, "backbone": config.backbone.plugin, "images": source, "look": look}
            if config.pretrained is not None:
                given["interpolation"] = seen.interpolation
                given["place"] = weights_place(name) if config.pretrained == "true" else ""
            checkpoint = key("checkpoint", {}, given, revisions(weights=WEIGHTS))
            crop = seen.crop if crop is None and seen.crop < 1 else crop
        else:
            inputs = {"images": source, "look": [*look, repr(benchmark.augmentation)]}
            parts: dict[str, object] = {"training": TRAINING, "backbone": BACKBONES.load(name) if ":" in name else 1}
            parts |= {} if config.module is None else {"module": MODULES.load(config.module)}
            checkpoint = key("checkpoint", config.training_config().result_keys(), inputs, revisions(**parts))
        return cls(benchmark, source, checkpoint, seen, target, crop)

    def part(self, split: str) -> Part:
        """Return the images of a split; for the novel classes, those of the target benchmark if there is one."""
        return self.target if self.target and split == "novel" else Part(self.benchmark, split, self.source)

    @property
    def target_base(self) -> Part | None:
        """The images of the target benchmark's base classes, if there is a target."""
        return self.target and self.target._replace(split="base")

    def bank(self, split: str) -> str:
        """Return the key of the features of a split."""
        if self.feature_files:
            return key("features", {}, {"given": given_fingerprint(self.feature_files, split, self.prompt)}, {})
        return self.bank_of(self.part(split))

    def bank_of(self, part: Part) -> str:
        """Return the key of the features of a part."""
        inputs = {"checkpoint": self.checkpoint, "split": part.split}
        if part.source != self.source:  # the key of the checkpoint has that of its own images
            inputs["images"] = part.source
        crop = {} if self.crop_pct is None else {"crop_pct": self.crop_pct}
        return key("features", crop, inputs, revisions(features=FEATURES))

    def evaluation(self, config: EvaluateConfig) -> str:
        """Return the key of an evaluation on these features; it does not depend on the tuned values."""
        inputs = {"features": self.bank(config.split)}
        if config.tuned:
            inputs["tuning"] = self.tuning(config.tuning_config())
        return key("evaluation", config.result_keys(), inputs, revisions_of(config))

    def tuning(self, config: TuneConfig) -> str:
        """Return the key of a tuning."""
        steps = steps_of(config.tuning, config.strategy)
        inputs = {"features": {step.split: self.bank(step.split) for step in steps}}
        keys = config.result_keys() | {"steps": [step.as_dict() for step in steps], "rule": RULE}
        return key("tuning", keys, inputs, revisions_of(config))

    def made_of(self, split: str) -> tuple[str, ...]:
        """Return the names of the cached results on which results on a split depend; none for given features."""
        return () if self.feature_files else (f"checkpoint/{self.checkpoint}", f"features/{self.bank(split)}")

    def data(self, split: str) -> list[DataUsed]:
        """Return the images of a split, or the given features."""
        if self.feature_files:
            files = ", ".join(pathlib.PurePath(file).name for file in self.feature_files)
            return [DataUsed(files, split, self.bank(split))]
        part = self.part(split)
        return [DataUsed(part.benchmark.name, split, part.source)]


class Lineages:
    """Lineages of many configs. Evaluations of the same training share a lineage, so its images are checked once."""

    def __init__(self) -> None:
        self._known: dict[str, Lineage] = {}

    def of(self, config: TrainConfig) -> Lineage:
        """Return `Lineage.of(config)`."""
        target = config.choices()["target"] if _crosses(config) else None
        images = config.features is not None and getattr(config, "needs_images", False)
        more = [getattr(config, "crop_pct", None), images, repr(target)]
        alike = json.dumps([config.training_config().flat(), *more], sort_keys=True)
        if alike not in self._known:
            self._known[alike] = Lineage.of(config)
        return self._known[alike]


def _crosses(config: TrainConfig) -> bool:
    """Return whether the novel classes are of another benchmark."""
    return isinstance(config, EvaluateConfig) and config.crosses


def _source(benchmark: "Benchmark", group: str) -> str:
    """Return the fingerprint of the source files of a benchmark's images; the message names the group, if any."""
    from fsl.benchmarks.images import images_source

    try:
        return images_source(benchmark)
    except InputError as error:
        raise InputError(str(error).replace(" root=", f" {group}.root=") if group else str(error)) from error


def images_of(
    benchmark: "Benchmark", split: str, store: Store, progress: Progress, found: "Decoded | None" = None
) -> "ImageSet":
    """Return the images of a split from the store's cache; if missing, they are decoded, or `found` was read before."""
    from fsl.benchmarks.images import open_images

    store.prepare()
    return open_images(benchmark, cast("Split", split), store.images, progress, found)


def labels_of(part: Part, store: Store, progress: Progress) -> "ImageSet | Decoded":
    """Return a part's labels and class names; with its images only if these are cached, since none are written here."""
    from fsl.benchmarks.images import images_file, read_split

    split = cast("Split", part.split)
    if images_file(part.benchmark, split, store.images).exists():
        return images_of(part.benchmark, split, store, progress)
    return read_split(part.benchmark, split, progress)


def common_tags(config: TrainConfig, lineage: Lineage) -> dict[str, Any]:
    """Return the tags common to all runs that depend on a training."""
    return {
        "benchmark": config.benchmark.name,
        "backbone": config.backbone.name,
        "training": "" if config.given else config.training.name,
        "weights": config.weights or "",
        "seed": config.seed,
        "data": lineage.source,
        **({"target_data": lineage.target.source} if lineage.target else {}),
        "training_key": lineage.checkpoint,
    }


def short(choice: Choice) -> str:
    """Return an option's name; the class name for a plug-in given as `package.module:Class`."""
    return short_name(choice.name)


def short_name(name: str) -> str:
    """Return the class of `package.module:Class`; other names are returned unchanged."""
    return name.rpartition(":")[2]


def train_name(config: TrainConfig) -> str:
    """Return a readable name of the training, such as `omniglot/conv4 s0`, or that of the given weights or features."""
    return f"{short(config.benchmark)}/{weights_name(config) or short(config.backbone)} s{config.seed}"


def weights_name(config: TrainConfig) -> str:
    """Return the name of the given file of weights or features, without suffixes; empty if none is given."""
    if config.pretrained is not None:
        return f"{short(config.backbone)} pretrained"
    given = config.features[0] if config.features else config.checkpoint or ""
    prompt = "" if config.prompt is None else f" prompt {config.prompt}"
    return pathlib.PurePath(given).name.removesuffix(".tar").rpartition(".")[0] + prompt


def cluster_name(config: ClusterConfig | FairConfig) -> str:
    """Return a readable name of the clustering, such as `slk_mean_shift digits s0`."""
    return f"{short(config.method)} {short(config.dataset)} s{config.seed}"


def evaluate_name(config: EvaluateConfig | TuneConfig) -> str:
    """Return a readable name of the evaluation, such as `laplacianshot 5w1s glyphs/conv4 on omniglot s0`."""
    network, _, seed = train_name(config).rpartition(" ")
    target = f" on {short(config.choices()['target'])}" if _crosses(config) else ""
    return f"{short(config.strategy)} {config.sampler.build().label} {network}{target} {seed}"
