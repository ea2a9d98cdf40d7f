"""Stage two: the features of a split, computed by a trained backbone."""

import dataclasses
from typing import TYPE_CHECKING, Any

from clustering.foundation.errors import InputError
from clustering.foundation.progress import Progress, quiet
from runs.cache import Entry, Store
from runs.config.configs import EvaluateConfig, TrainConfig
from runs.stages.checkpoints import CHECKPOINT, weights_of
from runs.stages.given_features import given_bank
from runs.stages.lineage import Lineage, Part, images_of, train_name
from runs.stages.stage import Workspace, cached
from runs.track import Tracker

if TYPE_CHECKING:
    from fsl.benchmarks.images import ImageSet
    from fsl.features.bank import FeatureBank
    from fsl.features.pictures import Pictures

BANK = "features.safetensors"
IMAGENET = (
    "If it was trained on ImageNet, it has seen the novel classes of mini- and tiered-ImageNet: accuracies on them are "
    "not those of few-shot learning."
)
OF_IMAGENET = ("mini", "tiered")  # benchmarks whose classes are classes of ImageNet


def features(
    config: TrainConfig, split: str, store: Store, tracker: Tracker, *, progress: Progress = quiet
) -> "FeatureBank":
    """Return the features of a split with the base mean, see `bank_of_split`."""
    return bank_of_split(config, split, Lineage.of(config), Workspace(store, tracker, progress))


def bank_of_split(config: TrainConfig, split: str, lineage: Lineage, work: Workspace) -> "FeatureBank":
    """Return the features of a split with the base mean; those given by the config, if any.

    Missing features are extracted, if necessary after a training. Features of an earlier checkpoint are not used.

    Raises:
        InputError: the network was trained on the novel classes of another benchmark; or as `given_bank`.
    """
    if config.features is not None:
        return given_bank(config.feature_files, split, config.prompt)
    bank = _bank(config, lineage, lineage.part(split), work)
    if split == "novel" and lineage.target_base and isinstance(config, EvaluateConfig) and config.base_mean == "target":
        mean = _bank(config, lineage, lineage.target_base, work).base_mean
        return dataclasses.replace(bank, base_mean=mean, provenance={**bank.provenance, "base_mean": "target"})
    return bank


def pictures(config: EvaluateConfig, lineage: Lineage, work: Workspace) -> "Pictures":
    """Return the images of a config's split with the network that computes their features; a missing one is trained."""
    part, made = lineage.part(config.split), weights_of(config, lineage, work)
    images = images_of(part.benchmark, part.split, work.store, work.progress)
    return _pictures(images, lineage, made)


def _pictures(images: "ImageSet", lineage: Lineage, made: Entry) -> "Pictures":
    """Return images with a checkpoint and the preprocessing of its training images, not of a target's."""
    from fsl.features.pictures import Pictures
    from fsl.weights.checkpoints import load_backbone

    backbone, crop = load_backbone(made.path / CHECKPOINT), lineage.crop_pct
    return Pictures(images.images, backbone, dataclasses.replace(lineage.look, crop=1.0 if crop is None else crop))


def stored_bank(key: str, store: Store, progress: Progress = quiet) -> "FeatureBank | None":
    """Return the features with that key; None if they are not in the cache, or damaged."""
    entry = store.find("features", key, progress.note)
    try:
        return _load(entry) if entry else None
    except InputError:
        return None


def _load(entry: Entry) -> "FeatureBank":
    from fsl.features.bank import FeatureBank

    return FeatureBank.load(entry.path / BANK)


def _bank(config: TrainConfig, lineage: Lineage, part: Part, work: Workspace) -> "FeatureBank":
    """Return the features of a part, which are extracted if they are missing."""
    store, key = work.store, lineage.bank_of(part)

    def make() -> Entry:
        if not config.given and not store.peek("checkpoint", lineage.checkpoint):
            work.progress.note(f"no checkpoint of {train_name(config)} yet: training it first")
        made = weights_of(config, lineage, work)
        bank = _extract(config, lineage, part, made, work)
        facts = {"inputs": {made.name: made.fingerprint}, "backbone": config.backbone.name, "size": lineage.look.size}
        metrics, yaml = {"images": len(bank.labels), "dimension": bank.dimension}, config.training_config().to_yaml()
        about: dict[str, Any] = {"config": yaml, "metrics": metrics, "facts": facts}
        return store.publish("features", key, lambda folder: bank.save(folder / BANK), **about)

    what = f"the features of {train_name(config)} {part.split}"
    return cached(work._replace(force=False), "features", key, what, _load, make)


def _extract(config: TrainConfig, lineage: Lineage, part: Part, made: Entry, work: Workspace) -> "FeatureBank":
    from fsl.features.bank import FeatureBank

    progress, look, crop = work.progress, lineage.look, lineage.crop_pct
    base = None
    if part.split != "base":
        progress.note(f"the mean of the base classes' features is kept with those of {part.split} classes")
        base = _bank(config, lineage, lineage.part("base"), work)
    images = images_of(part.benchmark, part.split, work.store, progress)
    known = set(images.class_names) & set(base.class_names if base and part.split == "novel" else ())
    if known:
        raise InputError(
            f"target={part.benchmark.name}: the network was trained on {len(known)} of its {part.split} classes, "
            f"{min(known)} among them; choose a target with other classes"
        )
    if config.pretrained is not None and part.benchmark.name in OF_IMAGENET and part.split == "novel":
        progress.note(f"{part.benchmark.name}: {IMAGENET}")
    found = _pictures(images, lineage, made).features(config.device, progress)
    cut = "" if crop is None else f", the middle {crop:g} of each side, enlarged"
    provenance = {
        "benchmark": part.benchmark.name,
        "backbone": config.backbone.name,
        "split": part.split,
        "checkpoint": made.fingerprint,
        "images": images.fingerprint,
        "source": part.source,
        "size": f"{look.channels} x {look.size} x {look.size}",
        "transform": f"scaled to 0..1, mean {list(look.mean)}, std {list(look.std)}{cut}",
    }
    base_mean = found.double().mean(dim=0).float() if base is None else base.base_mean
    return FeatureBank(found, images.labels, images.class_names, base_mean, provenance)
