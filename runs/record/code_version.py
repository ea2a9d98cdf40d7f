"""The version of this project that computed a run."""

import functools
import subprocess
from contextlib import suppress
from importlib import metadata
from pathlib import Path


@functools.cache
def code_version() -> str:
    """Return the commit of the checkout that contains this code (with `+changes` if files differ), else the version."""
    project = Path(__file__).resolve().parents[2]
    if (project / ".git").exists():
        with suppress(OSError, subprocess.SubprocessError):
            described = ["describe", "--always", "--abbrev=40", "--exclude=*", "--dirty=+changes"]
            command = ["git", "-C", str(project), *described]
            return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()
    try:
        return metadata.version("transduce")
    except metadata.PackageNotFoundError:
        return "unknown"
