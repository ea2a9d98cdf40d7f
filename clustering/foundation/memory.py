"""Check of the memory that a computation needs against the free memory, before it starts.

Otherwise the system may kill the process during the computation without a message.
"""

import math
from collections.abc import Mapping
from pathlib import Path

from clustering.foundation.errors import InputError

_UNNOTICED = 1 << 28
"""Number of bytes below which no check is made."""

_MACHINE, _CONTAINER = Path("/proc/meminfo"), Path("/sys/fs/cgroup")


def require(what: str, parts: Mapping[str, float], remedy: str) -> None:
    """Raise if memory is insufficient. Does nothing if the system does not report its free memory.

    Args:
        what: the computation.
        parts: bytes that are needed at the same time, by name.
        remedy: advice for the error message.

    Raises:
        InputError: more memory is needed than is free.
    """
    needed = sum(parts.values())
    if needed <= _UNNOTICED:
        return
    available = free()
    if available is not None and needed > available:
        largest = sorted(parts.items(), key=lambda part: -part[1])
        listed = ", ".join(f"{name} {_written(size)}" for name, size in largest if size >= 0.01 * needed)
        raise InputError(
            f"{what} would need about {_written(needed)} of memory ({listed}), but {_written(available)} are free; "
            f"{remedy}"
        )


def free() -> int | None:
    """Bytes of memory that this process may still use, limited by the machine and by its container (Linux)."""
    limits = []
    try:
        available = next(line for line in _MACHINE.read_text().splitlines() if line.startswith("MemAvailable:"))
        limits.append(1024 * int(available.split()[1]))
        limit, used, details = ((_CONTAINER / f"memory.{name}").read_text() for name in ("max", "current", "stat"))
        files = [int(line.split()[1]) for line in details.splitlines() if line.startswith("inactive_file ")]
        limits.append(max(0, int(limit) - int(used) + sum(files)))  # file caches can be reclaimed
    except (OSError, ValueError, StopIteration):  # another system, or no limit ("max")
        pass
    return min(limits, default=None)


def _written(size: float) -> str:
    return f"{size / 1e9:.2g} GB" if size < 1e10 else f"{math.ceil(size / 1e9):,} GB"
