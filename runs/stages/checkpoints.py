"""Stage one: the trained backbone of a config, or the one whose weights were given."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clustering.foundation.errors import InputError
from fsl.progress import Progress, quiet
from runs.config.configs import TrainConfig
from runs.record.noted_runs import noted_run
from runs.record.tracked_run import TrackedRun
from runs.record.tracking import Tracker
from runs.stages.lineage import Lineage, common_tags, images_of, short, train_name
from runs.storage import cards
from runs.storage.store import CARD, Entry, Store

if TYPE_CHECKING:
    from fsl.weights.pretrained import Look

CHECKPOINT = "best.safetensors"


@dataclass(frozen=True)
class Checkpoint:
    """A trained backbone.

    Attributes:
        path: the safetensors file.
        identity: of its training.
        fingerprint: of its content.
        run_id: the run that trained it; empty for weights that were given.
        reused: it was there already.
        facts: what training reported, such as `best_validation_accuracy`, `epochs`.
    """

    path: Path
    identity: str
    fingerprint: str
    run_id: str
    reused: bool
    facts: Mapping[str, Any]


def checkpoint(
    config: TrainConfig,
    store: Store,
    tracker: Tracker,
    *,
    progress: Progress = quiet,
    force: bool = False,
    lineage: Lineage | None = None,
) -> Checkpoint:
    """The backbone of a config: trained where there is none; an interrupted training goes on.

    With `checkpoint=FILE` or `pretrained=` nothing is trained, and no run made: the weights are taken into the store.

    Args:
        force: train (or read the weights) again, even though it is there.
        lineage: of the config, where it is known.

    Raises:
        InputError: see `fsl.training.base.train`, `fsl.weights.foreign`, `Store`, `Tracker`.
    """
    lineage = lineage or Lineage.of(config)
    name, key = train_name(config), lineage.checkpoint
    if not config.given:
        tracker.bury()  # also where nothing is to be trained: a forced training may have been killed
    if not force and (entry := store.peek("checkpoints", key)):
        return _reused(entry, key, tracker)
    with store.lock("checkpoint", key, f"the training of {name}", progress.note):
        entry = None if force else store.find("checkpoints", key, progress.note)
        if entry:
            return _reused(entry, key, tracker)
        if config.given:
            return _import(config, lineage, store, progress)
        return _train(config, lineage, store, tracker, progress, force)


def _reused(entry: Entry, key: str, tracker: Tracker) -> Checkpoint:
    run_id = str(entry.facts.get("run", ""))
    # Killed after the rename and before the mark: everything is in the run, but for the card and the mark.
    run = tracker.get(run_id) if run_id and tracker.exists() else None
    if run is not None and run.info.status in ("RUNNING", "KILLED"):
        left = tracker.tracked(run_id)
        if (entry.path / CARD).is_file():
            left.artifact(entry.path / CARD)
        left.finish()
    _tidy(entry)
    return Checkpoint(entry.path / CHECKPOINT, key, entry.fingerprint, run_id, True, entry.facts)


def _tidy(entry: Entry) -> None:
    """What only an interrupted training needs."""
    for rest in ("last.ckpt", "run.json", "forced"):
        (entry.path / rest).unlink(missing_ok=True)


def _import(config: TrainConfig, lineage: Lineage, store: Store, progress: Progress) -> Checkpoint:
    """Given weights as a finished checkpoint."""
    from fsl.weights.checkpoints import save_backbone
    from fsl.weights.foreign import import_backbone
    from fsl.weights.pretrained import pretrained_backbone, weights_place

    network, look = config.backbone.build(), lineage.look
    size: dict[str, int] = {"channels": look.channels, "size": look.size}
    if config.checkpoint is not None:
        origin, backbone = config.checkpoint, import_backbone(Path(config.checkpoint), network, **size)
        _check_look(config, look)
    elif config.pretrained == "true":
        origin, backbone = weights_place(network), pretrained_backbone(network)
    else:
        origin = str(config.pretrained)
        backbone = pretrained_backbone(network, Path(origin))
    facts = {"imported": Path(origin).name, "content": str(config.weights)}
    shown = {"benchmark": lineage.benchmark.name, "mean": look.mean, "std": look.std}
    card = cards.given(
        network,
        lineage.benchmark,
        facts["imported"],
        facts["content"],
        CHECKPOINT,
        folded=getattr(backbone, "folded", ()),
        look=look if config.pretrained else None,
    )
    partial = store.partial("checkpoints", lineage.checkpoint, fresh=True)
    with store.watched():
        save_backbone(partial / CHECKPOINT, backbone, network, **size, about={**facts, **shown})
    entry = store.publish("checkpoints", lineage.checkpoint, [CHECKPOINT], facts, card.text)
    progress.note(f"weights of {network} taken from {origin}")
    return Checkpoint(entry.path / CHECKPOINT, lineage.checkpoint, entry.fingerprint, "", False, entry.facts)


def _train(
    config: TrainConfig, lineage: Lineage, store: Store, tracker: Tracker, progress: Progress, force: bool
) -> Checkpoint:
    from fsl.training.base import precision_of, train
    from fsl.training.machine import resolve_devices

    resolve_devices(config.device, config.devices)  # that there are so many, before images are decoded
    key = lineage.checkpoint
    partial = store.partial("checkpoints", key)
    forced = partial / "forced"  # so that a forced training that was interrupted goes on, too
    if force and not forced.exists():
        partial = store.partial("checkpoints", key, fresh=True)
        forced.touch()
    base = images_of(lineage.benchmark, "base", store, progress)
    validation = images_of(lineage.benchmark, "validation", store, progress)
    run = _training_run(config, lineage, partial, tracker)
    started = time.monotonic()
    with run.guarded():
        with store.watched():
            trained = train(
                config.backbone.build(),
                lineage.benchmark,
                base,
                validation,
                config.training.build(),
                config.seed,
                partial,
                log=run,
                progress=progress,
                device=config.device,
                devices=config.devices,
            )
        numbers = {"best_epoch": trained.best_epoch, "epochs": trained.epochs, "images": trained.images}
        best = {"best_validation_accuracy": trained.validation_accuracy}  # the plain name is that of the curve
        # An interrupted training counts the seconds since it was taken up again.
        seconds = {"seconds": time.monotonic() - started}
        run.log(metrics=numbers | best | seconds, tags={"base_images": base.fingerprint})
        precision = precision_of(config.training.build(), config.device)
        facts = {
            **numbers,
            "validation_accuracy": trained.validation_accuracy,
            "validation_ci95": trained.validation_ci95,
            "images_per_second": trained.images_per_second,
            "devices": config.devices,
            "precision": precision,
        }
        keys = config.training_config().result_keys() | {"training.precision": precision}
        splits = {"base": base, "validation": validation}
        card = cards.trained(train_name(config), CHECKPOINT, keys, lineage.benchmark, facts, splits)
        entry = store.publish("checkpoints", key, [CHECKPOINT], {**facts, "run": run.run_id}, card.text)
        run.artifact(entry.path / CARD)
        run.finish()
    _tidy(entry)
    return Checkpoint(entry.path / CHECKPOINT, key, entry.fingerprint, run.run_id, False, entry.facts)


def _check_look(config: TrainConfig, look: "Look") -> None:
    """That a checkpoint of this project gets images normalised as those that it was trained on."""
    from fsl.weights.checkpoints import normalisation

    trained = normalisation(Path(str(config.checkpoint)))
    if trained and trained != (list(look.mean), list(look.std)):
        name, shown = config.benchmark.name, (list(look.mean), list(look.std))
        raise InputError(
            f"checkpoint={config.checkpoint}: trained on images of mean {trained[0]} and std {trained[1]}, and those "
            f"of benchmark {name} have {shown[0]} and {shown[1]}; name the benchmark that it was trained on, and "
            f"target={name} for other classes"
        )


def _training_run(config: TrainConfig, lineage: Lineage, partial: Path, tracker: Tracker) -> TrackedRun:
    """The run that an interrupted training left, or a new one."""
    experiment = f"train/{short(config.benchmark)}"
    tracker.bury(experiment, lineage.checkpoint)

    def begin() -> TrackedRun:
        return tracker.start(
            experiment,
            train_name(config),
            stage="checkpoint",
            identity=lineage.checkpoint,
            params=config.flat(),
            config=config.to_yaml(),
            tags=common_tags(config, lineage),
        )

    return noted_run(partial / "run.json", train_name(config), tracker, begin)
