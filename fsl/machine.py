"""What the machine at hand offers: its device, its fast number formats, its allocator."""

import ctypes
import sys

import torch

from clustering.errors import InputError


def resolve_device(name: str) -> torch.device:
    """The device of that name; "auto" is the first GPU where there is one, else the CPU.

    Raises:
        InputError: for a name that torch does not know, or a device that this machine lacks.
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


def has_fast_bfloat16(device: torch.device) -> bool:
    """Whether bfloat16 arithmetic is faster than float32 here: by instruction, not by emulation."""
    if device.type == "cuda":
        return torch.cuda.get_device_capability(device) >= (8, 0)
    if device.type != "cpu":
        return False
    capabilities = torch.cpu.get_capabilities() if hasattr(torch.cpu, "get_capabilities") else {}
    return bool(capabilities.get("avx512_bf16") or capabilities.get("amx_bf16"))


def keep_freed_memory() -> bool:
    """Ask the C library to keep the memory that tensors free, for the next ones, instead of returning it.

    glibc hands large buffers back to the kernel at each free, so that every training step faults its
    activations in anew. Call it once, at the start of a program; it cannot be undone. Idle without glibc.

    Returns:
        Whether the allocator took the setting.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    m_trim_threshold, m_mmap_max = -1, -4
    # the trim threshold is a C int: its largest value, 2 GiB, is the most that can be asked for
    return bool(mallopt(m_mmap_max, 0)) and bool(mallopt(m_trim_threshold, 2**31 - 1))
