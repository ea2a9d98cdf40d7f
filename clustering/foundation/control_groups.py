"""The control groups (Linux) that limit this process: its own, and those around it."""

from collections.abc import Iterator
from pathlib import Path, PurePosixPath

_OWN = Path("/proc/self/cgroup")
_GROUPS = Path("/sys/fs/cgroup")


def control_groups(controller: str) -> Iterator[Path]:
    """Folders of the groups that may limit what a controller is for, of both versions of control groups.

    In a container, a folder of the machine's tree may not exist; the root shows the container's own limits.

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
    """Of a file that the system may not have: then none."""
    try:
        return file.read_text().splitlines()
    except OSError:  # another system, or another kind of control group
        return []
