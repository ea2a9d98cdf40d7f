"""Reading of files that `torch.save` wrote, without executing code in them."""

import re
from pathlib import Path
from typing import Any

import torch

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
    except InputError:
        raise
    except Exception as error:  # what PyTorch raises for a damaged file cannot be listed
        forbidden = re.search(r"GLOBAL ([\w.]+) (?:was|whose)", str(error), re.ASCII)
        if forbidden:
            raise InputError(
                f"{path}: contains {forbidden[1]}, which requires executing code, so the file is not loaded; {remedy}"
            ) from error
        if "TorchScript" in str(error):
            raise InputError(
                f"{path}: a TorchScript archive contains code, so the file is not loaded; {remedy}"
            ) from error
        raise InputError(f"{path}: damaged, or not {what} ({reason(error)}); download it again") from error
