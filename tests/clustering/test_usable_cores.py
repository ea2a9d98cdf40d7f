"""As many cores as the machine, the affinity and the control groups grant, and no more threads than that."""

import os
from pathlib import Path

import pytest

from clustering.foundation import control_groups, usable_cores
from clustering.foundation.usable_cores import set_up_threads


@pytest.fixture
def groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine of 16 cores; gives the folder in which its control groups are."""
    monkeypatch.setattr(usable_cores, "_allowed", lambda: 16)
    monkeypatch.setattr(control_groups, "_OWN", tmp_path / "cgroup")
    monkeypatch.setattr(control_groups, "_GROUPS", tmp_path / "groups")
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    return tmp_path / "groups"


def write(files: dict[Path, str]) -> None:
    for file, text in files.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text + "\n")


@pytest.mark.parametrize(
    ("limits", "count"),
    [
        ({}, 16),  # the root group has no such file
        ({".": "max 100000"}, 16),
        ({".": "400000 100000"}, 4),  # of a container, whose own group is shown as the root
        ({"pod/one": "250000 100000"}, 3),  # a part of a core counts as one
        ({"pod/one": "10000 100000"}, 1),
        ({"pod": "200000 100000", "pod/one": "max 100000"}, 2),  # by a group around it
        ({"pod": "200000 100000", "pod/one": "800000 100000"}, 2),
        ({"pod/two": "100000 100000"}, 16),  # of another
        ({"pod/one": "6400000 100000"}, 16),  # more than there are
        ({"pod/one": "nonsense"}, 16),
    ],
)
def test_control_groups_of_version_2(groups: Path, limits: dict[str, str], count: int) -> None:
    write({groups.parent / "cgroup": "0::/pod/one"})
    write({groups / folder / "cpu.max": limit for folder, limit in limits.items()})
    assert usable_cores.usable_cores() == count


@pytest.mark.parametrize(("quota", "count"), [("-1", 16), ("150000", 2), ("1600000", 16)])
@pytest.mark.parametrize("inner", ["docker/abc", "."])  # inside a container the path is that of the machine
def test_control_groups_of_version_1(groups: Path, inner: str, quota: str, count: int) -> None:
    write({groups.parent / "cgroup": "3:cpu,cpuacct:/docker/abc\n2:cpuset:/docker/abc\n0::/docker/abc"})
    folder = groups / "cpu" / inner
    write({folder / "cpu.cfs_quota_us": quota, folder / "cpu.cfs_period_us": "100000"})
    assert usable_cores.usable_cores() == count


def test_a_system_without_control_groups(groups: Path) -> None:
    assert usable_cores.usable_cores() == 16


def test_no_more_threads_than_granted_and_the_user_goes_first(groups: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    set_up_threads()
    assert "OMP_NUM_THREADS" not in os.environ
    write({groups.parent / "cgroup": "0::/", groups / "cpu.max": "200000 100000"})
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    set_up_threads()
    assert os.environ["OMP_NUM_THREADS"] == "7"
    monkeypatch.delenv("OMP_NUM_THREADS")
    set_up_threads()
    assert os.environ["OMP_NUM_THREADS"] == "2"
