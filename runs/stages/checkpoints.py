"""Stage one: the trained backbone of a config, or a backbone with given weights."""

import dataclasses
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from clustering.foundation.errors import InputError
from clustering.foundation.progress import Progress, quiet
from runs.config.configs import TrainConfig
from runs.record.noted_runs import noted_run
from runs.record.tracked_run import TrackedRun
from runs.record.unrecorded import Made
from runs.stages.lineage import Lineage, common_tags, images_of, short, train_name
from runs.stages.stage import Begun, Stage, Workspace, execute
from runs.storage import cards
from runs.storage.locks import Say
from runs.storage.store import CARD, Entry, Store
from runs.track import Tracker

if TYPE_CHECKING:
    from fsl.training.settings import Trained
    from fsl.weights.pretrained import Look

CHECKPOINT = "best.safetensors"  # the file of the backbone in its folder


def checkpoint(
    config: TrainConfig,
    store: Store,
    tracker: Tracker,
    *,
    progress: Progress = quiet,
    force: bool = False,
    lineage: Lineage | None = None,
) -> Entry:
    """Return the folder with the backbone of a config; trained if missing; an interrupted training is resumed.

    With `checkpoint=FILE` or `pretrained=`, the weights are copied to the store, without a training or a run.

    Args:
        force: train (or read the weights) again, even if the checkpoint exists.
        lineage: lineage of the config, if it is known.

    Raises:
        InputError: see `fsl.training.base.train`, `fsl.weights.foreign`, `Store`, `Tracker`.
    """
    lineage = lineage or Lineage.of(config)
    work, key = Workspace(store, tracker, progress, force), lineage.checkpoint
    if not config.given:
        stage = TrainingStage(config, lineage)
        results, failures = execute([stage], work)
        if failures:
            raise failures[0][1]
        trained: Entry = results[key]
        return trained
    if not force and (entry := store.peek("checkpoints", key)):
        return entry
    with store.lock("checkpoint", key, f"the training of {train_name(config)}", progress.note):
        entry = None if force else store.find("checkpoints", key, progress.note)
        return entry or _import(config, lineage, work)


@dataclass(frozen=True)
class TrainingStage(Stage[None, "Trained", Entry]):
    """One config whose network is trained; its weights are stored in the results folder."""

    kind, noun, counted = "checkpoint", "the training", False

    config: TrainConfig
    lineage: Lineage

    @property
    def identity(self) -> str:
        return self.lineage.checkpoint

    @property
    def experiment(self) -> str:
        return f"train/{short(self.config.benchmark)}"

    @property
    def name(self) -> str:
        return train_name(self.config)

    def settle(self, work: Workspace) -> None:
        work.store.find("checkpoints", self.identity, work.progress.note)

    def recorded(self, tracker: Tracker, say: Say) -> Entry | None:
        entry = tracker.store.peek("checkpoints", self.identity)
        if entry is None:
            return None
        # A process killed after the renaming leaves a run that lacks only the card and the mark FINISHED.
        run = tracker.get(entry.run_id) if entry.run_id and tracker.exists() else None
        if run is not None and run.info.status in ("RUNNING", "KILLED"):
            left = tracker.tracked(entry.run_id)
            if (entry.path / CARD).is_file():
                left.artifact(entry.path / CARD)
            left.finish()
        _tidy(entry.path)
        return entry

    def begin(self, prepared: None, work: Workspace) -> Begun:
        """Resume the run of an interrupted training, or start a new run."""
        from fsl.machine import resolve_devices

        config, lineage, store, tracker = self.config, self.lineage, work.store, work.tracker
        resolve_devices(config.device, config.devices)  # checks their number before images are decoded
        partial = store.partial("checkpoints", self.identity)
        forced = partial / "forced"  # an interrupted forced training is resumed, too
        if work.force and not forced.exists():
            partial = store.partial("checkpoints", self.identity, fresh=True)
            forced.touch()
        images = {split: images_of(lineage.benchmark, split, store, work.progress) for split in ("base", "validation")}

        def start() -> TrackedRun:
            return tracker.start(
                self.experiment,
                self.name,
                stage=self.kind,
                identity=self.identity,
                params=config.flat(),
                config=config.to_yaml(),
                tags=common_tags(config, lineage),
            )

        return Begun(noted_run(partial / "run.json", self.name, tracker, start), (partial, images))

    def run(self, begun: Begun, prepared: None, work: Workspace) -> Made["Trained"]:
        from fsl.training.base import precision_of, train

        config, run, (partial, images), started = self.config, begun.run, begun.state, time.monotonic()
        with work.store.watched():
            trained = train(
                config.backbone.build(),
                self.lineage.benchmark,
                images["base"],
                images["validation"],
                config.training.build(),
                config.seed,
                partial,
                log=run,
                progress=work.progress,
                device=config.device,
                devices=config.devices,
            )
        numbers = {"best_epoch": trained.best_epoch, "epochs": trained.epochs, "images": trained.images}
        best = {"best_validation_accuracy": trained.validation_accuracy}  # the curve has no "best_"
        # The time of a resumed training starts at its resumption.
        seconds = {"seconds": time.monotonic() - started}
        run.log(metrics=numbers | best | seconds, tags={"base_images": images["base"].fingerprint})
        facts = {
            "run": run.run_id,
            **numbers,
            "validation_accuracy": trained.validation_accuracy,
            "validation_ci95": trained.validation_ci95,
            "images_per_second": trained.images_per_second,
            "devices": config.devices,
            "precision": precision_of(config.training.build(), config.device),
        }
        return Made(trained, facts)

    def keep(self, made: Made["Trained"], begun: Begun, work: Workspace) -> Path:
        config, facts = self.config, {name: value for name, value in made.facts.items() if name != "run"}
        keys = config.training_config().result_keys() | {"training.precision": facts["precision"]}
        card = cards.trained(self.name, CHECKPOINT, keys, self.lineage.benchmark, facts, begun.state[1])
        return work.store.publish("checkpoints", self.identity, [CHECKPOINT], made.facts, card.text).path / CARD

    def result(self, made: Made["Trained"], begun: Begun, work: Workspace) -> Entry:
        entry = work.store.peek("checkpoints", self.identity)
        assert entry is not None, "it was put there under the lock"
        return dataclasses.replace(entry, reused=False)

    def close(self, made: Made["Trained"], begun: Begun, work: Workspace) -> None:
        _tidy(work.store.cache("checkpoints") / self.identity)


def _tidy(folder: Path) -> None:
    """Remove the files that only an interrupted training needs."""
    for rest in ("last.ckpt", "run.json", "forced"):
        (folder / rest).unlink(missing_ok=True)


def _import(config: TrainConfig, lineage: Lineage, work: Workspace) -> Entry:
    """Store given weights as a finished checkpoint, and return it."""
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
    partial = work.store.partial("checkpoints", lineage.checkpoint, fresh=True)
    with work.store.watched():
        save_backbone(partial / CHECKPOINT, backbone, network, **size, about={**facts, **shown})
    entry = work.store.publish("checkpoints", lineage.checkpoint, [CHECKPOINT], facts, card.text)
    work.progress.note(f"weights of {network} taken from {origin}")
    return entry


def _check_look(config: TrainConfig, look: "Look") -> None:
    """Check that images are normalised as those on which a checkpoint of this project was trained."""
    from fsl.weights.checkpoints import normalisation

    trained = normalisation(Path(str(config.checkpoint)))
    if trained and trained != (list(look.mean), list(look.std)):
        name, shown = config.benchmark.name, (list(look.mean), list(look.std))
        raise InputError(
            f"checkpoint={config.checkpoint}: trained on images of mean {trained[0]} and std {trained[1]}, and those "
            f"of benchmark {name} have {shown[0]} and {shown[1]}; name the benchmark that it was trained on, and "
            f"target={name} for other classes"
        )
