"""What would not fit into memory is refused before it starts, with what it would need and what to do."""

from pathlib import Path

import pytest

from clustering.foundation import memory
from clustering.foundation.errors import InputError


def test_too_little_memory_says_what_it_would_need(monkeypatch: pytest.MonkeyPatch) -> None:
    for free in (10**12, None):  # enough, or a system that does not tell
        monkeypatch.setattr(memory, "free", lambda free=free: free)
        memory.require("this", {"all of it": 10**11}, "take less")
    monkeypatch.setattr(memory, "free", lambda: 2 * 10**9)
    with pytest.raises(InputError, match=r"100 GB.*2 GB are free; take less"):
        memory.require("this", {"all of it": 10**11}, "take less")


def test_the_least_of_machine_and_container(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_MACHINE", tmp_path / "meminfo")
    monkeypatch.setattr(memory, "_CONTAINER", tmp_path)
    assert memory.free() is None
    (tmp_path / "meminfo").write_text("MemTotal:  9 kB\nMemAvailable:       4000 kB\n")
    assert memory.free() == 4_096_000
    (tmp_path / "memory.max").write_text("max\n")
    (tmp_path / "memory.current").write_text("3000000\n")
    (tmp_path / "memory.stat").write_text("file 7\ninactive_file 100000\n")
    assert memory.free() == 4_096_000
    (tmp_path / "memory.max").write_text("5000000\n")
    assert memory.free() == 2_100_000
