"""Checkpoints of base training: of the last and the best epoch; and the processes of several devices."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lightning_fabric.utilities.exceptions import MisconfigurationException
from pytorch_lightning.callbacks import ModelCheckpoint

from clustering.files.torch_files import load_state
from clustering.foundation.errors import InputError


def checkpoints(folder: Path, **arguments: Any) -> tuple[ModelCheckpoint, ModelCheckpoint]:
    """The callbacks that write `best.ckpt` when a metric improves, and `last.ckpt` after each epoch.

    Args:
        folder: the folder of both files.
        arguments: arguments of the first one, such as `monitor` and `mode`.

    Raises:
        InputError: ModelCheckpoint does not accept an argument.
    """
    saved: dict[str, Any] = {"dirpath": folder, "enable_version_counter": False, "save_on_train_epoch_end": True}
    try:
        return ModelCheckpoint(**{"filename": "best", **saved, **arguments}), ModelCheckpoint(filename="last", **saved)
    except (TypeError, ValueError, MisconfigurationException) as error:
        raise InputError(f"model_checkpoint: {error}") from error


def best_state(state: Mapping[str, Any], best: ModelCheckpoint) -> Mapping[str, Any]:
    """The checkpoint of the best epoch; `state` itself before the first validation, nothing if it is damaged.

    Args:
        state: the last checkpoint.
        best: the callback that wrote the checkpoint of the best epoch.
    """
    path = state["callbacks"].get(best.state_key, {}).get("best_model_path")
    return (load_state(Path(path)) or {}) if path else state


def stopped_early(state: Mapping[str, Any]) -> bool:
    """Whether the training that wrote a checkpoint has no epoch left because of EarlyStopping."""
    stops = [part for name, part in state["callbacks"].items() if name.startswith("EarlyStopping")]
    return any(part["wait_count"] >= part["patience"] for part in stops)


def started_from_here(options: Mapping[str, Any]) -> tuple[dict[str, Any], int]:
    """Options of the Trainer with which several devices get processes that this one starts, and their number.

    Lightning's "ddp" would run the whole command again in each process.
    """
    devices = options.get("devices", 1)
    count = len(devices) if isinstance(devices, list | tuple) else int(devices)
    spawned = {"strategy": "ddp_spawn"} if count > 1 and options.get("strategy", "auto") in ("auto", "ddp") else {}
    return {**options, **spawned}, count
