"""What would not fit into memory is refused before it starts, with what it would need and what to do."""

from pathlib import Path

import pytest

from clustering.foundation import control_groups, memory
from clustering.foundation.errors import InputError


@pytest.mark.parametrize("free", [10**12, None])
def test_enough_memory_or_a_system_that_does_not_tell(monkeypatch: pytest.MonkeyPatch, free: int | None) -> None:
    monkeypatch.setattr(memory, "free", lambda: free)
    memory.require("this", {"all of it": 10**11}, "take less")


def test_too_little_memory_says_what_it_would_need(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "free", lambda: 2 * 10**9)
    with pytest.raises(InputError, match=r"100 GB.*2 GB are free; take less"):
        memory.require("this", {"all of it": 10**11}, "take less")


@pytest.mark.parametrize(
    ("own", "folder", "limit", "used", "files"),
    [
        ("0::/", ".", "memory.max", "memory.current", "inactive_file"),
        ("0::/slice/job", "slice", "memory.max", "memory.current", "inactive_file"),
        ("4:memory:/job\n0::/", "memory/job", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    ],
)
def test_the_least_of_machine_and_control_groups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own: str, folder: str, limit: str, used: str, files: str
) -> None:
    machine = tmp_path / "meminfo"
    machine.write_text("MemTotal:  9 kB\nMemAvailable:       4000 kB\n")
    (tmp_path / "own").write_text(own + "\n")
    monkeypatch.setattr(memory, "_MEMORY", machine)
    monkeypatch.setattr(control_groups, "_OWN", tmp_path / "own")
    monkeypatch.setattr(control_groups, "_GROUPS", tmp_path)
    assert memory.free() == 4_096_000
    group = tmp_path / folder
    group.mkdir(parents=True, exist_ok=True)
    (group / limit).write_text("max\n")
    (group / used).write_text("3000000\n")
    assert memory.free() == 4_096_000
    (group / limit).write_text("5000000\n")
    (group / "memory.stat").write_text(f"file 7\n{files} 100000\n")
    assert memory.free() == 2_100_000
    monkeypatch.setattr(memory, "_MEMORY", tmp_path / "none")
    monkeypatch.setattr(control_groups, "_GROUPS", tmp_path / "none")
    assert memory.free() is None
