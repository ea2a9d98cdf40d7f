"""Callbacks and logger of a training, from the keys `callbacks.*` and `logger.*` of its config. Imports Lightning."""

from collections.abc import Mapping
from typing import Any

import pytorch_lightning as lightning
from lightning_fabric.loggers.logger import rank_zero_experiment
from lightning_fabric.utilities.exceptions import MisconfigurationException
from lightning_utilities.core.rank_zero import rank_zero_only
from pytorch_lightning import callbacks
from pytorch_lightning.loggers import MLFlowLogger

from clustering.foundation.errors import InputError, unknown
from clustering.foundation.plugins import Plugins
from runs.record.tracked_run import TrackedRun

CALLBACKS = Plugins("callback", {}, "transduce.callbacks")
BEST = "model_checkpoint"  # of the best epoch, which the training itself creates
DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "learning_rate_monitor": {"logging_interval": "step"},
    "early_stopping": {"monitor": "val/simpleshot", "mode": "max"},
}


def callbacks_of(chosen: Mapping[str, Any]) -> list[lightning.Callback]:
    """Return the callbacks of a config; the learning rate is monitored if nothing else is said.

    Args:
        chosen: arguments by name in snake_case, such as `early_stopping: {patience: 10}`; true for the defaults, false
            or null for none. An own callback has its class as `_target_`: FILE.py:CLASS or package.module:CLASS.
    """
    known, made = {kind: getattr(callbacks, kind) for kind in callbacks.__all__}, []
    for name, given in ({"learning_rate_monitor": True} | dict(chosen)).items():
        if name == BEST or given in (False, None):
            continue
        arguments = {**DEFAULTS.get(name, {}), **({} if given is True else given)}
        target, wanted = arguments.pop("_target_", None), name.title().replace("_", "")
        if not target and wanted not in known:
            raise unknown("callback", wanted, known)
        try:
            callback = (CALLBACKS.load(target) if target else known[wanted])(**arguments)
        except (TypeError, ValueError, MisconfigurationException) as error:
            raise InputError(f"callbacks.{name}: {error}") from error
        if not isinstance(callback, lightning.Callback):
            raise InputError(f"callbacks.{name}: {target} is not a Callback of pytorch_lightning; inherit from it")
        made.append(callback)
    return made


class RunLogger(MLFlowLogger):
    """Lightning's logger of a run, which its stage ends. An epoch that is repeated is not logged twice."""

    last_steps: Mapping[str, int] = {}  # the last step of each metric that was logged before a resumption

    @property
    @rank_zero_experiment
    def experiment(self) -> Any:
        """MLflow's client. Lightning's own would make this record that of the whole process and of its children."""
        return self._mlflow_client

    @rank_zero_only
    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        new = {name: value for name, value in metrics.items() if step is None or step > self.last_steps.get(name, -1)}
        if new:
            super().log_metrics(new, step)

    def finalize(self, status: str = "success") -> None:
        pass


def logger_of(run: TrackedRun, uri: str, chosen: Mapping[str, Any]) -> RunLogger:
    """Return the logger of a run; raises InputError if MLFlowLogger does not take an argument."""
    try:
        logger = RunLogger(run_id=run.run_id, tracking_uri=uri, **chosen)
    except TypeError as error:
        raise InputError(f"logger: {error}") from error
    logger.last_steps = dict(run.last_steps)
    return logger
