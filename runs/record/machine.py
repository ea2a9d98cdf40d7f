"""The machine that computed a run, in a few words."""

import functools
import platform
import re
import sys
from contextlib import suppress
from pathlib import Path

CPUINFO = Path("/proc/cpuinfo")


def machine() -> str:
    """Return processor, usable cores and GPU, such as "Intel(R) Xeon(R) Processor, 2 cores".

    A GPU is only named if torch is loaded, as in every process that computes.
    """
    import joblib  # slow to import

    cores, torch = joblib.cpu_count(), sys.modules.get("torch")
    gpu = f", {torch.cuda.get_device_name(0)}" if torch is not None and torch.cuda.is_available() else ""
    return f"{_processor()}, {cores} core{'' if cores == 1 else 's'}{gpu}"


@functools.cache
def _processor() -> str:
    with suppress(OSError):
        text = CPUINFO.read_text(encoding="utf-8", errors="replace")
        if found := re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE):
            return found.group(1).strip()
    return platform.processor() or platform.machine() or "unknown processor"
