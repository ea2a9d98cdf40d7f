"""The memory allocator of the C library."""

import ctypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager


def keep_freed_memory() -> bool:
    """Make the C library keep the memory of freed tensors for later tensors.

    By default, glibc returns large buffers to the kernel when they are freed, and every training step causes page
    faults for its activations. Call this function once, at the start of a program; only `large_buffers_returned`
    suspends it. Without glibc it has no effect.

    Returns:
        Whether the allocator accepted the setting.
    """
    global _kept
    # the trim threshold is a C int, so its maximum is 2 GiB
    _kept = _mallopt(_MMAP_MAX, 0) and _mallopt(_TRIM_THRESHOLD, 2**31 - 1)
    return _kept


@contextmanager
def large_buffers_returned() -> Iterator[None]:
    """Context in which freed buffers of 32 MiB or more are returned to the kernel, even if freed memory is kept.

    A freed buffer that glibc keeps is too short for an aligned buffer of the same size. Work on a few large tensors
    would therefore need up to twice their memory.
    """
    undo = _kept and _mallopt(_MMAP_THRESHOLD, 32 << 20) and _mallopt(_MMAP_MAX, 65_536)
    try:
        yield
    finally:
        if undo:
            _mallopt(_MMAP_MAX, 0)


_TRIM_THRESHOLD, _MMAP_THRESHOLD, _MMAP_MAX = -1, -3, -4  # constants of malloc.h

_kept = False  # whether `keep_freed_memory` was called and accepted


def _mallopt(parameter: int, value: int) -> bool:
    """Set a parameter of the C library's allocator; returns whether it was accepted."""
    if not sys.platform.startswith("linux"):
        return False
    try:
        return bool(ctypes.CDLL(None).mallopt(parameter, value))
    except (OSError, AttributeError):
        return False
