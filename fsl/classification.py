"""The Lightning side of base training: the loop over steps, and what happens at the end of each epoch."""

import dataclasses
import logging
import time
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from clustering.errors import InputError
from clustering.streams import stream_key
from fsl.augmentation import normalise
from fsl.checkpoints import save_backbone, save_state
from fsl.evaluation import evaluate
from fsl.features import FeatureBank, extract
from fsl.progress import Advance, Progress
from fsl.schedules import factor
from fsl.strategies.simpleshot import SimpleShot
from fsl.tasks import TaskSampler
from fsl.training import Log, Trained, Training

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # about packages that are none of ours
    import pytorch_lightning as lightning

if TYPE_CHECKING:
    from fsl.benchmarks.benchmark import Benchmark
    from fsl.benchmarks.images import ImageSet

WINDOW = 50  # steps between looks at the loss: on a GPU each look waits for the device


@dataclass(frozen=True, eq=False)
class Job:
    """All that one training is made of; see `fsl.training.train`."""

    backbone: nn.Module
    head: nn.Linear
    backbone_name: str
    benchmark: "Benchmark"
    base: "ImageSet"
    validation: "ImageSet"
    training: Training
    seed: int
    folder: Path
    identity: str
    device: torch.device
    bfloat16: bool

    @property
    def batch_size(self) -> int:
        return min(self.training.batch_size, len(self.base.labels))

    @property
    def steps_per_epoch(self) -> int:
        return len(self.base.labels) // self.batch_size


@dataclass
class Standing:
    """How far a training is; plain numbers, kept in `last.ckpt`.

    Attributes:
        epoch: finished epochs.
        best_epoch: the epoch that validated best, from 1; 0 before the first validation.
        best_accuracy: its validation accuracy.
        stale: validations since.
        stopped: whether it ended early.
    """

    epoch: int = 0
    best_epoch: int = 0
    best_accuracy: float = -1.0
    stale: int = 0
    stopped: bool = False


class Batches:
    """Batches of indices into the base images, in the order of one epoch, which (seed, epoch) determines."""

    def __init__(self, module: "Classification") -> None:
        self._module = module

    def __len__(self) -> int:
        return self._module.job.steps_per_epoch

    def __iter__(self) -> Iterator[Tensor]:
        job = self._module.job
        generator = torch.Generator().manual_seed(
            stream_key(job.seed, "training", "order", self._module.epoch)
        )
        order = torch.randperm(len(job.base.labels), generator=generator)
        yield from torch.split(order[: len(self) * job.batch_size], job.batch_size)


class Classification(lightning.LightningModule):
    """Backbone and linear classifier under cross-entropy with label smoothing."""

    def __init__(self, job: Job, state: Mapping[str, Any] | None) -> None:
        super().__init__()
        self.job, self._state = job, state
        self.backbone, self.head = job.backbone, job.head
        self.first_epoch = 0
        if state is not None:
            self.load_state_dict(state["weights"])
            self.first_epoch = state["standing"]["epoch"]
        classes = job.head.out_features
        # the papers give the other classes 0.1 / (K - 1) each; torch spreads its smoothing over all K
        self._smoothing = min(1.0, job.training.label_smoothing * classes / (classes - 1))
        self._augmentation = job.benchmark.augmentation if job.training.augment else None
        self._draws = torch.Generator()

    @property
    def epoch(self) -> int:
        """The epoch being trained, from 0, counted over all sessions."""
        return self.first_epoch + self.current_epoch

    def train_dataloader(self) -> Batches:
        return Batches(self)

    def transfer_batch_to_device(self, batch: Tensor, device: torch.device, dataloader_idx: int) -> Tensor:
        """Indices stay on the CPU, where the images are."""
        return batch

    def configure_optimizers(self) -> torch.optim.Optimizer:
        training = self.job.training
        self._optimizer = torch.optim.SGD(
            self.parameters(),
            lr=training.learning_rate,
            momentum=training.momentum,
            nesterov=training.nesterov,
            weight_decay=training.weight_decay,
        )
        if self._state is not None:
            self._optimizer.load_state_dict(self._state["optimizer"])
        return self._optimizer

    def on_train_epoch_start(self) -> None:
        # all that is drawn in an epoch derives from its number: a resumed training draws the same
        self._draws.manual_seed(stream_key(self.job.seed, "training", "augmentation", self.epoch))
        torch.manual_seed(stream_key(self.job.seed, "training", "dropout", self.epoch))

    def rate(self, step: int) -> float:
        """The learning rate of a step, counted over all sessions."""
        training = self.job.training
        return training.learning_rate * factor(
            training.schedule,
            step,
            steps_per_epoch=self.job.steps_per_epoch,
            epochs=training.epochs,
            warmup=training.warmup,
            milestones=training.milestones,
            gamma=training.gamma,
        )

    def training_step(self, indices: Tensor, batch: int) -> Tensor:
        rate = self.rate(self.epoch * self.job.steps_per_epoch + batch)
        for group in self._optimizer.param_groups:
            group["lr"] = rate
        images = self.job.base.images[indices].to(self.device)
        labels = self.job.base.labels[indices].to(self.device)
        if self._augmentation is not None:
            images = self._augmentation(images, self._draws)
        pixels = normalise(images, self.job.benchmark.mean, self.job.benchmark.std)
        logits = self.head(self.backbone(pixels.contiguous(memory_format=torch.channels_last)))
        return functional.cross_entropy(logits, labels, label_smoothing=self._smoothing)


class Bookkeeping(lightning.Callback):
    """Watches the loss, validates, keeps the best and the last state, logs, stops early."""

    def __init__(self, standing: Standing, log: Log | None, advance: Advance) -> None:
        self.standing, self.advance = standing, advance
        self.curves = log  # `log` is what Lightning itself puts on a callback
        self.images, self.seconds = 0, 0.0
        self._shown: dict[str, float] = {}
        self._losses: list[Tensor] = []
        self._means: list[tuple[int, float]] = []
        self._sampler: TaskSampler | None = None

    def on_train_epoch_start(self, trainer: Any, module: Any) -> None:
        self._losses, self._means = [], []
        self._began = time.perf_counter()

    def on_train_batch_end(self, trainer: Any, module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        self._losses.append(outputs["loss"].detach())
        if len(self._losses) == WINDOW:
            self._look(module, batch_idx + 1)
        self.advance(len(batch), **self._shown)

    def _look(self, module: Classification, steps: int) -> None:
        """Take the mean of the losses since the last look; `steps` were done in this epoch."""
        losses = torch.stack(self._losses).float().cpu()
        if not losses.isfinite().all():
            step = steps - len(losses) + int((~losses.isfinite()).nonzero()[0]) + 1
            raise self._diverged(module, f"the loss is {losses[~losses.isfinite()][0]:g} at step {step}")
        self._means.append((steps, float(losses.mean())))
        self._losses = []
        self._shown["loss"] = self._means[-1][1]

    def _diverged(self, module: Classification, what: str) -> InputError:
        kept = f"epoch {self.standing.epoch} is kept" if self.standing.epoch else "nothing is kept"
        return InputError(
            f"training diverged: {what} of epoch {module.epoch + 1} ({kept}); lower learning_rate "
            f"({module.job.training.learning_rate:g}) or add warmup"
        )

    def on_train_epoch_end(self, trainer: Any, module: Any) -> None:
        job: Job = module.job
        if self._losses:
            self._look(module, job.steps_per_epoch)
        seconds = time.perf_counter() - self._began
        images = job.steps_per_epoch * job.batch_size
        self.images, self.seconds = self.images + images, self.seconds + seconds
        epoch = module.epoch + 1
        values = {
            "train_loss": self._epoch_loss(),
            "learning_rate": module.rate(epoch * job.steps_per_epoch - 1),
            "images_per_second": images / seconds,
        }
        last = epoch == job.training.epochs
        if last or epoch % job.training.validate_every == 0:
            values["validation_accuracy"] = self._validate(module)
            self._judge(module, epoch, values["validation_accuracy"])
        self.standing.epoch = epoch
        if self.curves is not None:
            # logged before the state is saved: an epoch may come twice after a crash, but is never missing
            first = (epoch - 1) * job.steps_per_epoch
            for steps, mean in self._means:
                step = first + steps
                self.curves.metrics({"step_loss": mean, "step_learning_rate": module.rate(step - 1)}, step)
            self.curves.metrics(values, epoch)
        state = {
            "identity": job.identity,
            "standing": dataclasses.asdict(self.standing),
            "weights": module.state_dict(),
            "optimizer": module._optimizer.state_dict(),
        }
        save_state(job.folder / "last.ckpt", state)
        if self.standing.stopped:
            trainer.should_stop = True

    def _epoch_loss(self) -> float:
        counts = [
            steps - before
            for (steps, _), (before, _) in zip(self._means, [(0, 0), *self._means], strict=False)
        ]
        return sum(n * mean for n, (_, mean) in zip(counts, self._means, strict=True)) / sum(counts)

    def _validate(self, module: Classification) -> float:
        """Nearest-prototype accuracy on 5-way 1-shot validation tasks, features of length 1."""
        job = module.job
        features = extract(
            module.backbone,
            job.validation,
            mean=job.benchmark.mean,
            std=job.benchmark.std,
            device=str(module.device),
        )
        if not features.isfinite().all():
            raise self._diverged(module, "features are no longer finite at the end")
        bank = FeatureBank(features, job.validation.labels, job.validation.class_names)
        if self._sampler is None:
            self._sampler = validation_tasks(job)
        count = job.training.validation_tasks
        result = evaluate({"prototypes": SimpleShot(transform="L2N")}, bank, self._sampler, count)
        return result["prototypes"].accuracy

    def _judge(self, module: Classification, epoch: int, accuracy: float) -> None:
        """Keep the weights if they are the best so far; else count towards early stopping."""
        job, standing = module.job, self.standing
        self._shown["accuracy"] = accuracy
        if accuracy <= standing.best_accuracy:
            standing.stale += 1
            standing.stopped = job.training.patience is not None and standing.stale >= job.training.patience
            return
        standing.best_epoch, standing.best_accuracy, standing.stale = epoch, accuracy, 0
        about = {
            "benchmark": job.benchmark.name,
            "epoch": epoch,
            "seed": job.seed,
            "validation_accuracy": accuracy,
        }
        save_backbone(
            job.folder / "best.safetensors",
            module.backbone,
            job.backbone_name,
            channels=job.benchmark.channels,
            size=job.benchmark.size,
            about=about,
        )


def validation_tasks(job: Job) -> TaskSampler:
    """5-way 1-shot tasks with 15 queries a class, or as near as the validation classes allow."""
    counts = torch.bincount(job.validation.labels)
    if len(counts) < 2 or int(counts.min()) < 2:
        raise InputError(
            f"benchmark {job.benchmark.name}: validation needs 2 classes or more with 2 images or more each"
        )
    return TaskSampler(
        job.validation.labels,
        way=min(5, len(counts)),
        query=min(15, int(counts.min()) - 1),
        seed=stream_key(job.seed, "training", "validation"),
    )


def fit(job: Job, state: Mapping[str, Any] | None, log: Log | None, progress: Progress) -> Trained:
    """Run the epochs that are left."""
    standing = Standing(**state["standing"]) if state else Standing()
    epochs, per_epoch = job.training.epochs, job.steps_per_epoch * job.batch_size
    resumed_at, images, speed = standing.epoch, 0, 0.0
    if standing.epoch < epochs and not standing.stopped:
        validation_tasks(job)  # complain about classes that are too small now, not after an epoch
        module = Classification(job, state)
        module.to(memory_format=torch.channels_last)
        name = f"training {job.backbone_name} on {job.benchmark.name}"
        with progress.track(name, (epochs - resumed_at) * per_epoch) as advance:
            bookkeeping = Bookkeeping(standing, log, advance)
            _run(job, module, bookkeeping, epochs - resumed_at)
        images, speed = bookkeeping.images, bookkeeping.images / max(bookkeeping.seconds, 1e-9)
    return Trained(
        path=job.folder / "best.safetensors",
        validation_accuracy=standing.best_accuracy,
        best_epoch=standing.best_epoch,
        epochs=standing.epoch,
        images=resumed_at * per_epoch + images,
        images_per_second=speed,
        resumed_at=resumed_at,
    )


def _run(job: Job, module: Classification, bookkeeping: Bookkeeping, epochs: int) -> None:
    on_gpu = job.device.type == "cuda"
    index = (job.device.index or 0) if on_gpu else 0
    with _silent(), torch.random.fork_rng(devices=[index] if on_gpu else []):
        trainer = lightning.Trainer(
            accelerator="gpu" if on_gpu else "cpu",
            devices=[index] if on_gpu else 1,
            precision="bf16-mixed" if job.bfloat16 else "32-true",
            max_epochs=epochs,
            callbacks=[bookkeeping],
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            use_distributed_sampler=False,
            default_root_dir=job.folder,
        )
        try:
            trainer.fit(module)
        except SystemExit as stopped:
            # Lightning turns Ctrl-C into an exit with code 1
            if not isinstance(stopped.__context__, KeyboardInterrupt):
                raise
            raise KeyboardInterrupt from None


class _silent:
    """Lightning's messages and warnings are for people who write its modules, not for those who train."""

    def __enter__(self) -> None:
        self._warnings = warnings.catch_warnings()
        self._warnings.__enter__()
        for module in ("pytorch_lightning", "lightning_fabric"):
            warnings.filterwarnings("ignore", module=rf"{module}\b.*")
        names = [
            n for n in logging.root.manager.loggerDict if n.startswith(("pytorch_lightning", "lightning"))
        ]
        self._levels = {name: logging.getLogger(name).level for name in names}
        for name in names:
            logging.getLogger(name).setLevel(logging.ERROR)

    def __exit__(self, *exception: object) -> None:
        for name, level in self._levels.items():
            logging.getLogger(name).setLevel(level)
        self._warnings.__exit__(*exception)  # type: ignore[arg-type]
