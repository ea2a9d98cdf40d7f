"""Training with Lightning without its messages, progress bars and files."""

import logging
import warnings
from pathlib import Path
from typing import Any

import pytorch_lightning as lightning
import torch
from lightning_fabric.plugins.environments.lightning import LightningEnvironment


def train_quietly(
    module: lightning.LightningModule, device: torch.device, epochs: int, folder: Path | None, **options: Any
) -> None:
    """Train a module for a number of epochs; output and stored files are left to the module and its callbacks.

    The global random state of torch is restored afterwards.

    Args:
        device: device of this process.
        folder: directory for files of Lightning.
        options: arguments of Lightning's `Trainer`, such as `devices` for several processes.

    Raises:
        KeyboardInterrupt: Ctrl-C was pressed; Lightning by itself would exit with code 1.
    """
    on_gpu = device.type == "cuda"
    index = (device.index or 0) if on_gpu else 0
    with silent_lightning(), torch.random.fork_rng(devices=[index] if on_gpu else []):
        trainer = lightning.Trainer(
            accelerator="gpu" if on_gpu else "cpu",
            plugins=[LightningEnvironment()],  # ignores the environment of a job scheduler
            max_epochs=epochs,
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            use_distributed_sampler=False,
            default_root_dir=folder,
            **{"devices": [index] if on_gpu else 1} | options,
        )
        try:
            trainer.fit(module)
        except SystemExit as stopped:
            if not isinstance(stopped.__context__, KeyboardInterrupt):
                raise
            raise KeyboardInterrupt from None


class silent_lightning:
    """Context without the messages and warnings of Lightning, which are meant for authors of its modules."""

    def __enter__(self) -> None:
        self._warnings = warnings.catch_warnings()
        self._warnings.__enter__()
        for module in ("pytorch_lightning", "lightning_fabric"):
            warnings.filterwarnings("ignore", module=rf"{module}\b.*")
        names = [n for n in logging.root.manager.loggerDict if n.startswith(("pytorch_lightning", "lightning"))]
        self._levels = {name: logging.getLogger(name).level for name in names}
        for name in names:
            logging.getLogger(name).setLevel(logging.ERROR)

    def __exit__(self, *exception: object) -> None:
        for name, level in self._levels.items():
            logging.getLogger(name).setLevel(level)
        self._warnings.__exit__(*exception)  # type: ignore[arg-type]
