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
            commit = _git(project, "rev-parse", "HEAD").strip()
            changed = _git(project, "status", "--porcelain", "--untracked-files=no").strip()
            return commit + ("+changes" if changed else "")
    return version()


def version() -> str:
    """Return the version of the installed package."""
    try:
        return metadata.version("transduce")
    except metadata.PackageNotFoundError:
        return "unknown"


def _git(project: Path, *arguments: str) -> str:
    command = ["git", "-C", str(project), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout
