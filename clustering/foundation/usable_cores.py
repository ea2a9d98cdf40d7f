"""Number of cores that this process may use, by its affinity and its control groups."""

import math
import os
from collections.abc import Iterator

from clustering.foundation.control_groups import control_groups, lines

_OPENMP = "OMP_NUM_THREADS"


def usable_cores() -> int:
    """Number of cores, at least 1: the affinity of this process, or less if a control group (such as a container's)
    grants less time.

    Fractions of a core are rounded up.
    """
    return max(1, min([_allowed(), *map(math.ceil, _granted())]))


def set_up_threads() -> None:
    """Limit OpenMP and BLAS, hence torch and numpy, to one thread per usable core, and let waiting threads sleep: with
    other programs on the cores, busy waiting delays the threads that are waited for.

    Call it in a program before they are loaded. Variables that the user has set have priority.
    """
    if not os.environ.keys() & {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME"}:
        os.environ["OMP_WAIT_POLICY"] = "PASSIVE"
    cores = usable_cores()
    if cores < _allowed():
        os.environ.setdefault(_OPENMP, str(cores))


def _allowed() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _granted() -> Iterator[float]:
    """CPU time granted by the control groups of this process and the enclosing ones, in cores, for those with a
    limit."""
    for folder in control_groups("cpu"):
        second = " ".join(lines(folder / "cpu.max")).split()
        first = [*lines(folder / "cpu.cfs_quota_us"), *lines(folder / "cpu.cfs_period_us")]
        for limit in (second, first):  # versions 2 and 1 of control groups
            if len(limit) == 2 and limit[0].isdigit() and limit[1].isdigit() and int(limit[1]):  # not "max", not -1
                yield int(limit[0]) / int(limit[1])
