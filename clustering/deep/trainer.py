"""Training with Lightning without its messages and progress bars, and with checkpoints that are never half-written."""

import contextlib
import inspect
import logging
import multiprocessing
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytorch_lightning as lightning
import torch
from lightning_fabric.plugins.environments.lightning import LightningEnvironment
from lightning_fabric.plugins.io.torch_io import TorchCheckpointIO
from lightning_fabric.utilities.exceptions import MisconfigurationException
from pytorch_lightning.callbacks import Checkpoint
from torch.multiprocessing.spawn import ProcessExitedException, ProcessRaisedException

from clustering.files.torch_files import load_state, save_state
from clustering.foundation.errors import InputError, unknown


def train_quietly(
    module: lightning.LightningModule,
    folder: Path | None,
    data: lightning.LightningDataModule | None = None,
    resume: str | None = None,
    **options: Any,
) -> None:
    """Train a module with Lightning's Trainer, without Lightning's own output.

    The global random state of torch is restored afterwards.

    Args:
        module: the module.
        folder: directory for files of Lightning.
        data: its inputs, if the module does not bring them.
        resume: the checkpoint to go on from; "last" for that of a ModelCheckpoint, if there is one.
        options: arguments of the Trainer, such as `max_epochs`, `accelerator` and `callbacks`. Several devices need a
            strategy that starts their processes from here: "ddp_spawn".

    Raises:
        ChildProcessError: one of several processes was killed.
        InputError: the Trainer does not know or accept an option, or this process cannot start others.
        KeyboardInterrupt: Ctrl-C was pressed; Lightning by itself would exit with code 1.
    """
    known = inspect.signature(lightning.Trainer.__init__).parameters
    for name in options:
        if name not in known:
            raise unknown("setting of the Trainer", name, known)
    spawns = options.get("strategy") == "ddp_spawn"
    if spawns and multiprocessing.current_process().daemon:
        raise InputError("devices: this process cannot start others, because it was started as a worker; use devices=1")
    quietly = {
        "logger": False,
        "enable_progress_bar": False,
        "enable_model_summary": False,
        "enable_checkpointing": any(isinstance(one, Checkpoint) for one in options.get("callbacks", ())),
        "use_distributed_sampler": False,
        "num_sanity_val_steps": 0,
        "default_root_dir": folder,
        # the environment of a job scheduler is ignored
        "plugins": [LightningEnvironment(), WholeFiles()],
    }
    on_gpu = list(range(torch.cuda.device_count())) if options.get("accelerator") == "gpu" else []
    with silent_lightning(), torch.random.fork_rng(devices=on_gpu):
        try:
            trainer = lightning.Trainer(**quietly | options)
        except (MisconfigurationException, TypeError, ValueError) as error:
            raise InputError(f"trainer: {error}") from error
        try:
            if spawns:
                os.environ.setdefault("PYTHONWARNINGS", "ignore")  # of the processes that are started
            trainer.fit(module, datamodule=data, ckpt_path=resume, weights_only=True)
        except SystemExit as stopped:
            if not isinstance(stopped.__context__, KeyboardInterrupt):
                raise
            raise KeyboardInterrupt from None
        except ProcessRaisedException as error:
            kind, _, message = str(error).strip().rpartition("clustering.foundation.errors.InputError: ")
            raise InputError(message) if kind else error from None
        except ProcessExitedException as error:
            raise ChildProcessError(
                f"a process of the training ended: {error}; the last saved state is kept"
            ) from error


def accelerator_of(device: torch.device, devices: int = 1) -> dict[str, Any]:
    """Arguments of the Trainer for consecutive devices from the given one on."""
    on_gpu, first = device.type == "cuda", device.index or 0
    return {
        "accelerator": "gpu" if on_gpu else "cpu",
        "devices": list(range(first, first + devices)) if on_gpu else devices,
    }


@contextlib.contextmanager
def silent_lightning() -> Iterator[None]:
    """Context without the messages and warnings of Lightning, which are meant for authors of its modules."""
    loggers = [n for n in logging.root.manager.loggerDict if n.startswith(("pytorch_lightning", "lightning"))]
    levels = {name: logging.getLogger(name).level for name in loggers}
    with warnings.catch_warnings():
        for module in ("pytorch_lightning", "lightning_fabric"):
            warnings.filterwarnings("ignore", module=rf"{module}\b.*")
        for name in levels:
            logging.getLogger(name).setLevel(logging.ERROR)
        try:
            yield
        finally:
            for name, level in levels.items():
                logging.getLogger(name).setLevel(level)


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
