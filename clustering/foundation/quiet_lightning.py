"""Lightning without its messages, bars and files."""

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
    """Train a module for so many epochs, where all that is kept and shown is up to the module and its callbacks.

    Torch's random state is afterwards what it was.

    Args:
        device: of this process.
        folder: where Lightning may put files of its own.
        options: of Lightning's `Trainer`, such as `devices` of several processes.

    Raises:
        KeyboardInterrupt: Ctrl-C, which Lightning makes an exit with code 1.
    """
    on_gpu = device.type == "cuda"
    index = (device.index or 0) if on_gpu else 0
    with silent_lightning(), torch.random.fork_rng(devices=[index] if on_gpu else []):
        trainer = lightning.Trainer(
            accelerator="gpu" if on_gpu else "cpu",
            plugins=[LightningEnvironment()],  # whatever a job scheduler says of this process
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
    """Lightning's messages and warnings are for people who write its modules, not for those who train."""

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
