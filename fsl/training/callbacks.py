"""The callback of every base training."""

from contextlib import ExitStack
from typing import Any

import pytorch_lightning as lightning

from clustering.foundation.errors import unknown
from clustering.foundation.progress import Progress
from fsl.training.module import CHECKED


class Reporter(lightning.Callback):
    """Validates after the last epoch, too, shows progress with the monitored metric and the epoch after which it was
    computed, and writes the training's identity and metrics into each checkpoint."""

    def __init__(self, progress: Progress, description: str, monitor: str, identity: str) -> None:
        self._progress, self._description, self._monitor, self._identity = progress, description, monitor, identity
        self._open = ExitStack()
        self._shown: dict[str, float | str] = {}

    def on_train_start(self, trainer: Any, module: Any) -> None:
        data = trainer.datamodule
        left = (trainer.max_epochs - trainer.current_epoch) * data.batches * data.batch_size
        self._advance = self._open.enter_context(self._progress.track(self._description, left))

    def on_train_epoch_start(self, trainer: Any, module: Any) -> None:
        if trainer.current_epoch + 1 == trainer.max_epochs:
            trainer.check_val_every_n_epoch = 1

    def on_train_batch_end(self, trainer: Any, module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        if (batch_idx + 1) % CHECKED == 0 or trainer.is_last_batch:
            self._shown = {"loss": float(outputs["loss"]), **{k: v for k, v in self._shown.items() if k != "loss"}}
        self._advance(trainer.datamodule.batch_size, **self._shown)

    def on_validation_end(self, trainer: Any, module: Any) -> None:
        metrics = trainer.callback_metrics
        if self._monitor not in metrics:
            raise unknown("metric to monitor", self._monitor, metrics)
        shown = f"{100 * float(metrics[self._monitor]):.2f} %"
        self._shown = {"loss": self._shown["loss"], f"validation after epoch {trainer.current_epoch + 1}:": shown}
        self._advance(0, **self._shown)

    def on_save_checkpoint(self, trainer: Any, module: Any, checkpoint: dict[str, Any]) -> None:
        checkpoint["identity"] = self._identity
        checkpoint["metrics"] = {name: float(value) for name, value in trainer.callback_metrics.items()}

    def on_train_end(self, trainer: Any, module: Any) -> None:
        self._open.close()

    def on_exception(self, trainer: Any, module: Any, exception: BaseException) -> None:
        self._open.close()
