"""Number of cores that this process may use, by its affinity and the limit of its container."""

import math
import os
from pathlib import Path

_GRANTED = Path("/sys/fs/cgroup/cpu.max")


def usable_cores() -> int:
    """Number of cores, at least 1: the affinity of this process, or less if its container (Linux) grants less time.

    Fractions of a core are rounded up.
    """
    try:
        quota, period = _GRANTED.read_text().split()
        return max(1, min(_allowed(), math.ceil(int(quota) / int(period))))
    except (OSError, ValueError, ZeroDivisionError):  # another system, or no limit ("max")
        return _allowed()


def set_up_threads() -> None:
    """Limit OpenMP and BLAS, hence torch and numpy, to one thread per usable core, and let waiting threads sleep: with
    other programs on the cores, busy waiting delays the threads that are waited for.

    Call it in a program before they are loaded. Variables that the user has set have priority.
    """
    if not os.environ.keys() & {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME"}:
        os.environ["OMP_WAIT_POLICY"] = "PASSIVE"
    cores = usable_cores()
    if cores < _allowed():
        os.environ.setdefault("OMP_NUM_THREADS", str(cores))


def _allowed() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
