"""How many cores this process may use: of those of the machine, those that it may run on and those that are granted."""

import math
import os
from collections.abc import Iterator

from clustering.foundation.control_groups import control_groups, lines

_OPENMP = "OMP_NUM_THREADS"


def usable_cores() -> int:
    """At least 1: the affinity of this process, or less where a control group (of a container, say) grants less time;
    a part of a core counts as one."""
    return max(1, min([_allowed(), *map(math.ceil, _granted())]))


def start_no_more_threads() -> None:
    """OpenMP and BLAS, so torch and numpy, will start a thread for each usable core, not for each that there is.

    To be called before they are loaded. OMP_NUM_THREADS goes first, where it is set.
    """
    cores = usable_cores()
    if cores < _allowed():
        os.environ.setdefault(_OPENMP, str(cores))


def _allowed() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _granted() -> Iterator[float]:
    """Cores' worth of time that this process's control groups have, and those around them, where they are limited."""
    for folder in control_groups("cpu"):
        second = " ".join(lines(folder / "cpu.max")).split()
        first = [*lines(folder / "cpu.cfs_quota_us"), *lines(folder / "cpu.cfs_period_us")]
        for limit in (second, first):  # of the versions of control groups
            if len(limit) == 2 and limit[0].isdigit() and limit[1].isdigit() and int(limit[1]):  # not "max", not -1
                yield int(limit[0]) / int(limit[1])
