"""Stage two: the features of a split, under a trained backbone."""

from typing import TYPE_CHECKING

from clustering.errors import InputError
from fsl.progress import Progress, quiet
from runs.checkpoints import Checkpoint, checkpoint
from runs.config import TrainConfig
from runs.lineage import Lineage, images_of, train_name
from runs.store import Store
from runs.tracking import Tracker

if TYPE_CHECKING:
    from fsl.features import FeatureBank

BANK = "features.safetensors"


def features(
    config: TrainConfig,
    split: str,
    store: Store,
    tracker: Tracker,
    *,
    progress: Progress = quiet,
) -> "FeatureBank":
    """Features of a split with the base mean, extracted where they are not there; trains first where it must.

    A bank made from another checkpoint (after a training by force) is not used.
    """
    from fsl.features import FeatureBank

    lineage = Lineage.of(config)
    key = lineage.bank(split)
    trained = store.peek("checkpoints", lineage.checkpoint)
    with store.lock("features", key, f"the features of {train_name(config)} {split}", progress.note):
        entry = store.find("features", key, progress.note)
        if entry and (trained is None or entry.facts.get("checkpoint") == trained.fingerprint):
            try:
                return FeatureBank.load(entry.path / BANK)
            except InputError as error:
                progress.note(str(error))
                store.put_aside(entry.path, progress.note)
        if trained is None and config.checkpoint is None:
            progress.note(f"no checkpoint of {train_name(config)} yet: training it first")
        made = checkpoint(config, store, tracker, progress=progress)
        bank = _extract(config, lineage, split, made, store, tracker, progress)
        partial = store.partial("features", key, fresh=True)
        with store.watched():
            bank.save(partial / BANK)
        facts = {"checkpoint": made.fingerprint, "split": split, "images": bank.provenance.get("images", "")}
        entry = store.publish("features", key, [BANK], facts)
    return FeatureBank.load(entry.path / BANK)


def _extract(
    config: TrainConfig,
    lineage: Lineage,
    split: str,
    made: Checkpoint,
    store: Store,
    tracker: Tracker,
    progress: Progress,
) -> "FeatureBank":
    from fsl.features import FeatureBank, extract
    from fsl.training import load_backbone

    benchmark = lineage.benchmark
    mean = None
    if split != "base":
        mean = features(config, "base", store, tracker, progress=progress).base_mean
    images = images_of(benchmark, split, store, progress)
    found = extract(
        load_backbone(made.path),
        images,
        mean=benchmark.mean,
        std=benchmark.std,
        device=config.device,
        progress=progress,
    )
    provenance = {
        "benchmark": benchmark.name,
        "backbone": config.backbone.name,
        "split": split,
        "checkpoint": made.fingerprint,
        "images": images.fingerprint,
        "source": lineage.source,
        "transform": f"scaled to 0..1, mean {list(benchmark.mean)}, std {list(benchmark.std)}",
    }
    base_mean = found.double().mean(dim=0).float() if mean is None else mean
    return FeatureBank(found, images.labels, images.class_names, base_mean, provenance)
