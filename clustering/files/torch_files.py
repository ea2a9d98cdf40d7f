"""Files of `torch.save`, read without executing code in them, and training states, from which a training resumes."""

import re
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from clustering.files.atomic import replacing
from clustering.files.regular import open_regular
from clustering.foundation.errors import InputError, reason

TORCH = (".pth", ".pt", ".tar", ".ckpt", ".bin")  # file name suffixes


def read_torch(path: Path, what: str, remedy: str) -> Any:
    """The content of a file, on the CPU: tensors, numbers and texts in lists and dicts (`weights_only=True`).

    Args:
        path: the file.
        what: what it should be, for messages, such as "a file of weights".
        remedy: advice if it contains objects that require executing code.

    Raises:
        InputError: the file is missing or damaged, or it contains objects that require executing code; the message
            names the file.
    """
    try:
        with open_regular(path) as file:
            return torch.load(file, map_location="cpu", weights_only=True)
    except Exception as error:  # what PyTorch raises for a damaged file cannot be listed
        forbidden = re.search(r"GLOBAL ([\w.]+) (?:was|whose)", str(error), re.ASCII)
        if forbidden or "TorchScript" in str(error):
            code = f"contains {forbidden[1]}" if forbidden else "is a TorchScript archive"
            raise InputError(
                f"{path}: {code}, which requires executing code, so the file is not loaded; {remedy}"
            ) from error
        raise InputError(f"{path}: damaged, or not {what} ({reason(error)}); download it again") from error


def save_state(path: Path, state: Mapping[str, Any]) -> None:
    """Write tensors and plain values to a temporary file and rename it."""
    with replacing(path) as partial, partial.open("wb") as file:
        torch.save(dict(state), file)


def load_state(path: Path) -> dict[str, Any] | None:
    """What `save_state` wrote, or None if the file is missing or damaged. Runs no code from the file."""
    try:
        with open_regular(path) as file:
            with zipfile.ZipFile(file) as archive:  # verifies checksums, which torch writes but does not check
                if archive.testzip() is not None:
                    return None
            file.seek(0)
            state = torch.load(file, map_location="cpu", weights_only=True)
    except Exception:  # as in read_torch
        return None
    return state if isinstance(state, dict) else None


def resumable(path: Path, identity: str, say: Callable[[str], object]) -> dict[str, Any] | None:
    """The state from which a training with this identity resumes; None to start from the beginning.

    There may be no state, or a damaged one, which is reported and removed.

    Raises:
        InputError: the state belongs to another training.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        return None
    state = load_state(path)
    if state is None or "identity" not in state:
        say(f"{path} is damaged and was discarded; training begins anew")
        path.unlink()
        return None
    if state["identity"] != identity:
        raise InputError(f"{path}: belongs to another training; choose another folder, or remove this one")
    return state
