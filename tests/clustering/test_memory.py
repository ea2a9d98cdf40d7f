"""What would not fit into memory is refused before it starts, with what it would need and what to do."""

from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from clustering import SLK
from clustering.foundation import control_groups, memory
from clustering.foundation.errors import InputError
from clustering.graphs.neighbours import neighbours
from clustering.slk import memory as slk_memory
from clustering.slk.memory import needed

MANY = np.broadcast_to(np.float32(0), (40_000_000, 10))  # takes no room itself


@pytest.fixture
def little(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "free", lambda: 2_000_000_000)


@pytest.mark.usefixtures("little")
def test_a_table_that_does_not_fit_says_what_it_would_need() -> None:
    with pytest.raises(InputError, match=r"SLK of 40,000,000 x 10 .*\d+ GB .*2 GB"):
        SLK(4).fit(MANY)
    with pytest.raises(InputError, match=r"seeds and assignments [0-9.]+ GB"):
        SLK(4).trials(MANY[:2_000_000], seeds=range(60))
    with pytest.raises(InputError, match="12,000,000 x 1"):
        neighbours(np.zeros((12_000_000, 1), np.float32), 5)
    SLK(2, n_init=2).fit(np.random.default_rng(0).normal(size=(50, 2)))


@pytest.mark.parametrize("free", [10**12, None])
def test_enough_memory_or_a_system_that_does_not_tell(monkeypatch: pytest.MonkeyPatch, free: int | None) -> None:
    monkeypatch.setattr(memory, "free", lambda: free)
    memory.require("this", {"all of it": 10**11}, "take less")


def test_more_of_anything_needs_no_less() -> None:
    plain = {"clusters": 4, "neighbours": 5, "normalised": False, "drawn": 1, "together": 1, "kept": 1}
    few = sum(needed(MANY, **plain).values())
    for change in (
        {"clusters": 8},
        {"neighbours": 50},
        {"normalised": True},
        {"drawn": 48},
        {"together": 2},
        {"kept": 9},
    ):
        assert sum(needed(MANY, **plain | change).values()) > few, change
    assert sum(needed(MANY, **plain | {"neighbours": None}).values()) < few
    double = np.broadcast_to(np.float64(0), MANY.shape)
    assert sum(needed(double, **plain).values()) > 1.5 * few
    table = sparse.csr_array((1_000_000, 50_000), dtype=np.float32)
    assert sum(needed(table, **plain).values()) < 1e9  # not that of as many zeros


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


def test_a_race_on_all_points_keeps_the_labels_of_every_start(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[float] = []
    monkeypatch.setattr(slk_memory, "require", lambda what, parts, remedy: asked.append(sum(parts.values())))
    points = np.broadcast_to(np.float32(0), (1_000_000, 64))
    own = sparse.csr_array((len(points), len(points)), dtype=np.float32)
    for n_init in (48, 96):
        slk_memory.require_for_fit(SLK(10, n_init=n_init), points, own, known=False)
    assert asked[1] - asked[0] >= 48 * 8 * len(points)
