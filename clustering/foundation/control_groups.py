"""The control groups (Linux) that limit this process, its own and the enclosing ones."""

from collections.abc import Iterator
from pathlib import Path, PurePosixPath

_OWN = Path("/proc/self/cgroup")
_GROUPS = Path("/sys/fs/cgroup")


def control_groups(controller: str) -> Iterator[Path]:
    """Folders of the control groups that may limit a resource, for both versions of control groups.

    In a container, folders of the machine's tree may not exist; the root then shows the limits of the container.

    Args:
        controller: "cpu" or "memory".
    """
    for line in lines(_OWN):
        _, controllers, path = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        root = _GROUPS / controller if controllers else _GROUPS
        inner = PurePosixPath(path.lstrip("/"))
        for around in (inner, *inner.parents):
            yield root / around


def lines(file: Path) -> list[str]:
    """Lines of a file; empty if the file does not exist."""
    try:
        return file.read_text().splitlines()
    except OSError:  # another operating system, or another version of control groups
        return []
