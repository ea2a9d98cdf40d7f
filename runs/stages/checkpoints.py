"""Stage one: the trained backbone of a config, or a backbone with given weights."""

import dataclasses
import shutil
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from clustering.foundation.errors import InputError
from clustering.foundation.progress import Progress, quiet
from runs.cache import Entry, Store
from runs.config.configs import TrainConfig
from runs.record.tracked_run import DataUsed, TrackedRun
from runs.stages.lineage import Lineage, common_tags, images_of, short, train_name
from runs.stages.stage import Computed, Stage, Workspace, cached, execute
from runs.track import Tracker

if TYPE_CHECKING:
    from fsl.training.settings import Trained

CHECKPOINT = "best.safetensors"  # the file of the backbone in its folder
CROSS_ENTROPY = "cross_entropy"  # the module of a training if the config names none
MODEL = "model"  # name of the network in MLflow: mlflow.pytorch.load_model("runs:/<id>/model")


def checkpoint(
    config: TrainConfig, store: Store, tracker: Tracker, *, progress: Progress = quiet, force: bool = False
) -> Entry:
    """Return the folder with the backbone of a config; trained if missing; an interrupted training is resumed.

    With `checkpoint=FILE` or `pretrained=`, the weights are copied to the store, without a training or a run.

    Raises:
        InputError: see `fsl.training.base.train`, `fsl.weights.foreign`, `Store`, `Tracker`.
    """
    return weights_of(config, Lineage.of(config), Workspace(store, tracker, progress, force))


def weights_of(config: TrainConfig, lineage: Lineage, work: Workspace) -> Entry:
    """Return `checkpoint` of a config with this lineage."""
    key, name = lineage.checkpoint, train_name(config)
    if config.given:
        make = partial(_import, config, lineage, work.store, work.progress)
        return cached(work, "checkpoint", key, f"the weights of {name}", lambda entry: entry, make)
    experiment, tags = f"train/{short(config.benchmark)}", common_tags(config, lineage)
    stage = TrainingStage(config=config, key=key, experiment=experiment, name=name, tags=tags, lineage=lineage)
    results, failures = execute([stage], work)
    if failures:
        raise failures[0][1]
    trained: Entry = results[key]
    return trained


@dataclass(frozen=True, kw_only=True)
class TrainingStage(Stage):
    """One config whose network is trained; its weights are stored in the results folder."""

    kind = "checkpoint"

    lineage: Lineage

    def compute(self, run: TrackedRun, prepared: None, work: Workspace) -> Computed:
        """Train the network, or resume an interrupted training."""
        from fsl.training.base import train
        from runs.stages.trainer_parts import BEST, callbacks_of, logger_of

        config, benchmark, started = self.config, self.lineage.benchmark, time.monotonic()
        images = {split: images_of(benchmark, split, work.store, work.progress) for split in ("base", "validation")}
        trained = train(
            config.backbone.build(),
            benchmark,
            images["base"],
            images["validation"],
            config.training.build(),
            config.seed,
            work.store.working(self.kind, self.key, force=work.force),
            module=config.module or CROSS_ENTROPY,
            logger=logger_of(run, work.tracker.uri, config.logger),
            callbacks=callbacks_of(config.callbacks),
            trainer=config.trainer,
            model_checkpoint=config.callbacks.get(BEST),
            workers=config.workers,
            progress=work.progress,
            device=config.device,
            devices=config.devices,
        )
        metrics = {
            "best_epoch": trained.best_epoch,
            "epochs": trained.epochs,
            "best_validation_accuracy": trained.validation_accuracy,  # the curve has no "best_"
            "seconds": time.monotonic() - started,  # of a resumed training since its resumption
        }
        if trained.validation_ci95 is not None:
            metrics["best_validation_accuracy_ci95"] = trained.validation_ci95
        tags = {"base_images": images["base"].fingerprint, "devices": config.devices}
        data = [DataUsed(benchmark.name, split, found.fingerprint) for split, found in images.items()]
        return Computed(trained, metrics, tags, data=data)

    def save(self, content: "Trained", folder: Path) -> None:
        shutil.copyfile(content.path, folder / CHECKPOINT)

    def load(self, entry: Entry) -> None:
        if not (entry.path / CHECKPOINT).is_file():
            raise ValueError(f"{CHECKPOINT} is missing")

    def log(self, run: TrackedRun, content: "Trained | None", entry: Entry) -> None:
        from fsl.backbones import needed_by
        from fsl.weights.checkpoints import load_backbone

        network = load_backbone(entry.path / CHECKPOINT)
        run.network(network, MODEL, *needed_by(self.config.backbone.build()))

    def result(self, content: "Trained | None", entry: Entry, run_id: str) -> Entry:
        return dataclasses.replace(entry, run=run_id)


def _import(config: TrainConfig, lineage: Lineage, store: Store, progress: Progress) -> Entry:
    """Store given weights as a finished checkpoint, and return it.

    Raises:
        InputError: weights of another network, or a checkpoint of images that were normalised otherwise.
    """
    from fsl.weights.checkpoints import normalisation, save_backbone
    from fsl.weights.foreign import import_backbone
    from fsl.weights.pretrained import pretrained_backbone, weights_place

    network, look = config.backbone.build(), lineage.look
    size: dict[str, int] = {"channels": look.channels, "size": look.size}
    if config.checkpoint is not None:
        origin, backbone = config.checkpoint, import_backbone(Path(config.checkpoint), network, **size)
        trained, shown = normalisation(Path(config.checkpoint)), (list(look.mean), list(look.std))
        if trained and trained != shown:
            raise InputError(
                f"checkpoint={config.checkpoint}: trained on images of mean {trained[0]} and std {trained[1]}, and "
                f"those of benchmark {config.benchmark.name} have {shown[0]} and {shown[1]}; name the benchmark that "
                f"it was trained on, and target={config.benchmark.name} for other classes"
            )
    elif config.pretrained == "true":
        origin, backbone = weights_place(network), pretrained_backbone(network)[0]
    else:
        origin = str(config.pretrained)
        backbone = pretrained_backbone(network, Path(origin))[0]
    facts = {"imported": Path(origin).name, "content": str(config.weights)}

    def save(folder: Path) -> None:
        about = {**facts, "benchmark": lineage.benchmark.name, "mean": look.mean, "std": look.std}
        save_backbone(folder / CHECKPOINT, backbone, network, **size, about=about)

    yaml = config.training_config().to_yaml()
    entry = store.publish("checkpoint", lineage.checkpoint, save, config=yaml, facts=facts)
    progress.note(f"weights of {network} taken from {origin}")
    return entry
