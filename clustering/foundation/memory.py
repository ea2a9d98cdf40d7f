"""What a computation would need in memory, held against what is free, before it starts.

Else the system ends the process somewhere in the middle, without a word.
"""

import math
from collections.abc import Iterator, Mapping
from pathlib import Path

from clustering.foundation.control_groups import control_groups, lines
from clustering.foundation.errors import InputError

_UNNOTICED = 1 << 28
"""Bytes that are taken without a look at what is free."""

_MEMORY = Path("/proc/meminfo")


def require(what: str, parts: Mapping[str, float], remedy: str) -> None:
    """Nothing, if there is memory for it, or if the system does not tell.

    Args:
        what: that would need it.
        parts: names of what takes memory, and how many bytes at the same time.
        remedy: what to do where there is less.

    Raises:
        InputError: more than is free.
    """
    needed = sum(parts.values())
    if needed <= _UNNOTICED:
        return
    there = free()
    if there is not None and needed > there:
        largest = sorted(parts.items(), key=lambda part: -part[1])
        listed = ", ".join(f"{name} {_written(size)}" for name, size in largest if size >= 0.01 * needed)
        raise InputError(
            f"{what} would need about {_written(needed)} of memory ({listed}), {_written(there)} are free: {remedy}"
        )


def free() -> int | None:
    """Bytes that this process may still take: of the machine, and of the control groups that it is in (Linux)."""
    return min(_limits(), default=None)


def _limits() -> Iterator[int]:
    for line in lines(_MEMORY):
        if line.startswith("MemAvailable:"):
            yield 1024 * int(line.split()[1])
    for folder in control_groups("memory"):
        for limit, used, files in (
            ("memory.max", "memory.current", "inactive_file"),
            ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
        ):
            most, now = (lines(folder / name)[:1] for name in (limit, used))
            if most and now and most[0].isdigit():
                spare = [int(line.split()[1]) for line in lines(folder / "memory.stat") if line.startswith(f"{files} ")]
                yield max(0, int(most[0]) - int(now[0]) + sum(spare))  # files that are only kept at hand make room


def _written(size: float) -> str:
    return f"{size / 1e9:.2g} GB" if size < 1e10 else f"{math.ceil(size / 1e9):,} GB"
