"""The state from which a training goes on, on disk."""

import os
import pickle
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch


def save_state(path: Path, state: Mapping[str, Any]) -> None:
    """Write tensors and plain values beside `path`, then rename over it."""
    partial = path.with_name(f"{path.name}.partial")
    try:
        with partial.open("wb") as file:
            torch.save(dict(state), file)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def load_state(path: Path) -> dict[str, Any] | None:
    """What `save_state` wrote, or None where the file is missing or damaged. Runs no code from the file."""
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except (
        OSError,
        EOFError,
        RuntimeError,
        ValueError,
        LookupError,
        TypeError,
        pickle.UnpicklingError,
        zipfile.BadZipFile,
    ):
        return None
    return state if isinstance(state, dict) else None
