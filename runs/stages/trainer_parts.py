"""Callbacks and logger of a training, from the keys `callbacks.*` and `logger.*` of its config."""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from clustering.foundation.errors import InputError, unknown
from clustering.foundation.plugins import Plugins
from runs.record.address import ENVIRONMENT

if TYPE_CHECKING:
    from pytorch_lightning import Callback
    from pytorch_lightning.loggers import Logger

CALLBACKS = Plugins("callback", {}, "transduce.callbacks")
BEST = "model_checkpoint"  # of the best epoch, which the training itself creates
DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "learning_rate_monitor": {"logging_interval": "step"},
    "early_stopping": {"monitor": "val/simpleshot", "mode": "max"},
}


def callbacks_of(chosen: Mapping[str, Any]) -> "list[Callback]":
    """Return the callbacks of a config; the learning rate is monitored if nothing else is said.

    Args:
        chosen: arguments by name in snake_case, such as `early_stopping: {patience: 10}`; true for the defaults, false
            or null for none. An own callback has its class as `_target_`: FILE.py:CLASS or package.module:CLASS.

    Raises:
        InputError: Lightning has no callback of that name, or the class does not take the arguments.
    """
    import pytorch_lightning as lightning
    from lightning_fabric.utilities.exceptions import MisconfigurationException

    made = []
    for name, given in ({"learning_rate_monitor": True} | dict(chosen)).items():
        if name == BEST or given in (False, None):
            continue
        arguments = {**DEFAULTS.get(name, {}), **({} if given is True else given)}
        target = arguments.pop("_target_", None)
        kind = CALLBACKS.load(target) if target else _of_lightning(name)
        try:
            callback = kind(**arguments)
        except (TypeError, ValueError, MisconfigurationException) as error:
            raise InputError(f"callbacks.{name}: {error}") from error
        if not isinstance(callback, lightning.Callback):
            raise InputError(f"callbacks.{name}: {target} is not a Callback of pytorch_lightning; inherit from it")
        made.append(callback)
    return made


def _of_lightning(name: str) -> Any:
    from pytorch_lightning import callbacks

    known = {kind: getattr(callbacks, kind) for kind in callbacks.__all__}
    wanted = name.title().replace("_", "")
    if wanted not in known:
        raise unknown("callback", wanted, known)
    return known[wanted]


def logger_of(run_id: str, uri: str, chosen: Mapping[str, Any]) -> "Logger":
    """Return Lightning's logger of an MLflow run, which leaves the end of the run to its stage.

    Raises:
        InputError: MLFlowLogger does not take an argument.
    """
    from pytorch_lightning.loggers import MLFlowLogger

    class RunLogger(MLFlowLogger):
        @property
        def experiment(self) -> Any:
            before = os.environ.get(ENVIRONMENT)
            try:
                return super().experiment
            finally:  # Lightning sets it, and it would be the record of whatever comes later in this process
                os.environ.pop(ENVIRONMENT, None)
                if before is not None:
                    os.environ[ENVIRONMENT] = before

        def finalize(self, status: str = "success") -> None:
            pass

    try:
        return RunLogger(run_id=run_id, tracking_uri=uri, **chosen)
    except TypeError as error:
        raise InputError(f"logger: {error}") from error
