"""What the machine at hand offers: its device, its fast number formats, its allocator."""

import ctypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import torch

from clustering.foundation.errors import InputError
from clustering.foundation.usable_cores import usable_cores


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


def resolve_devices(name: str, count: int) -> tuple[torch.device, ...]:
    """That device and those after it, so many in all; of the CPU, so many times the CPU.

    Returns:
        One for each process, by its rank: rank 0, which validates, saves and says how far it is, works on the first.

    Raises:
        InputError: as `resolve_device`, or there are not so many GPUs, or cores.
    """
    first = resolve_device(name)
    if count == 1:
        return (first,)
    if first.type == "cpu":
        cores = usable_cores()
        if count > cores:
            raise InputError(
                f"devices={count} with device={name}: more processes than this program may use cores; "
                f"use devices={cores} at most"
            )
        return (first,) * count
    start, there = first.index or 0, torch.cuda.device_count()
    if first.type != "cuda" or start + count > there:
        raise InputError(
            f"devices={count} with device={name}: this machine has {there} GPU{'s' * (there != 1)}; "
            f"use devices={max(1, there - start)}, or device=cpu"
        )
    return tuple(torch.device("cuda", index) for index in range(start, start + count))


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
    activations in anew. Call it once, at the start of a program; only `large_buffers_returned` undoes it for a while.
    Idle without glibc.

    Returns:
        Whether the allocator took the setting.
    """
    global _kept
    # the trim threshold is a C int: its largest value, 2 GiB, is the most that can be asked for
    _kept = _mallopt(_MMAP_MAX, 0) and _mallopt(_TRIM_THRESHOLD, 2**31 - 1)
    return _kept


def return_freed_memory() -> None:
    """Give back what is kept at the moment: between works of different kinds, whose peaks would add up otherwise."""
    if _kept:
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).malloc_trim(0)


@contextmanager
def large_buffers_returned() -> Iterator[None]:
    """Meanwhile buffers of 32 MiB and more go back to the kernel when they are freed, even if freed memory is kept.

    A freed buffer that glibc keeps is too short for an aligned one of the same size, so that work on a few large
    tensors needs up to twice their room.
    """
    undo = _kept and _mallopt(_MMAP_THRESHOLD, 32 << 20) and _mallopt(_MMAP_MAX, 65_536)
    try:
        yield
    finally:
        if undo:
            _mallopt(_MMAP_MAX, 0)


_TRIM_THRESHOLD, _MMAP_THRESHOLD, _MMAP_MAX = -1, -3, -4  # of malloc.h

_kept = False  # whether `keep_freed_memory` was called and heard


def _mallopt(parameter: int, value: int) -> bool:
    """Whether there is a C library that takes this setting of its allocator."""
    if not sys.platform.startswith("linux"):
        return False
    try:
        return bool(ctypes.CDLL(None).mallopt(parameter, value))
    except (OSError, AttributeError):
        return False
