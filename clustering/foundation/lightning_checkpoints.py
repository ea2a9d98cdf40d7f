"""Checkpoints of trainings with Lightning: of the last and the best epoch, and never half-written."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lightning_fabric.plugins.io.torch_io import TorchCheckpointIO
from lightning_fabric.utilities.exceptions import MisconfigurationException
from pytorch_lightning.callbacks import ModelCheckpoint

from clustering.files.torch_files import load_state, save_state
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


class WholeFiles(TorchCheckpointIO):
    """Checkpoints are written to a temporary file and renamed; no code in a file is run."""

    def save_checkpoint(self, checkpoint: dict[str, Any], path: Any, storage_options: Any = None) -> None:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        save_state(Path(path), checkpoint)

    def load_checkpoint(self, path: Any, map_location: Any = None, weights_only: bool | None = None) -> dict[str, Any]:
        state = load_state(Path(path))
        if state is None:
            raise InputError(f"{path}: missing or damaged; remove it, and the training begins anew")
        return state
