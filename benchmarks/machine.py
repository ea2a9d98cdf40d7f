"""What a benchmark ran on: printed above its figures."""

import platform
import subprocess
from pathlib import Path

import torch


def describe() -> str:
    """Processor, cores, versions and commit in one line."""
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [line.partition(":")[2].strip() for line in cpuinfo.read_text().splitlines() if "model name" in line]
        model = names[0] if names else model
    here = Path(__file__).parent
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, cwd=here).stdout
    return f"{model}, {torch.get_num_threads()} threads, torch {torch.__version__}, commit {commit.strip()}"
