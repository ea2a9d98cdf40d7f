"""The machine that computed a run, in a few words."""

import functools
import platform
import re
import sys
from contextlib import suppress
from pathlib import Path

from clustering.foundation.usable_cores import usable_cores

CPUINFO = Path("/proc/cpuinfo")


@functools.cache
def machine() -> str:
    """Return processor, usable cores and GPU, such as "Intel(R) Xeon(R) Processor, 2 cores".

    A GPU is only named if torch is loaded, as in every process that computes.
    """
    cores = usable_cores()
    parts = [_processor(), "1 core" if cores == 1 else f"{cores} cores"]
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        parts.append(torch.cuda.get_device_name(0))
    return ", ".join(parts)


def _processor() -> str:
    with suppress(OSError):
        if found := re.search(r"^model name\s*:\s*(.+)$", CPUINFO.read_text(), re.MULTILINE):
            return found.group(1).strip()
    return platform.processor() or platform.machine() or "unknown processor"
