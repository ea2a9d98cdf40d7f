"""Check of the memory that a computation needs against the free memory, before it starts.

Otherwise the system may kill the process during the computation without a message.
"""

import math
from collections.abc import Iterator, Mapping
from pathlib import Path

from clustering.foundation.control_groups import control_groups, lines
from clustering.foundation.errors import InputError

_UNNOTICED = 1 << 28
"""Number of bytes below which no check is made."""

_MEMORY = Path("/proc/meminfo")


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
    """Bytes of memory that this process may still use, limited by the machine and by its control groups (Linux)."""
    return min(_limits(), default=None)


def _limits() -> Iterator[int]:
    for line in lines(_MEMORY):
        if line.startswith("MemAvailable:"):
            yield 1024 * int(line.split()[1])
    for folder in control_groups("memory"):
        for limit, in_use, files in (
            ("memory.max", "memory.current", "inactive_file"),
            ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
        ):
            total, current = (lines(folder / name)[:1] for name in (limit, in_use))
            if total and current and total[0].isdigit():
                reclaimable = [
                    int(line.split()[1]) for line in lines(folder / "memory.stat") if line.startswith(f"{files} ")
                ]
                yield max(0, int(total[0]) - int(current[0]) + sum(reclaimable))  # file caches can be reclaimed


def _written(size: float) -> str:
    return f"{size / 1e9:.2g} GB" if size < 1e10 else f"{math.ceil(size / 1e9):,} GB"
