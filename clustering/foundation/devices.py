"""Devices by name."""

import torch

from clustering.foundation.errors import InputError


def resolve_device(name: str) -> torch.device:
    """The device with this name; "auto" is the first GPU if there is one, otherwise the CPU.

    Raises:
        InputError: torch does not know the name, or this machine does not have the device.
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise InputError(f"unknown device {name!r}; use auto, cpu, cuda or cuda:N") from None
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise InputError(f"device {name!r} is not on this machine; use device=cpu or device=auto")
    return device
