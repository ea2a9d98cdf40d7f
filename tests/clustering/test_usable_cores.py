"""As many cores as the affinity and the container grant, and no more threads than that."""

import os
from pathlib import Path

import pytest

from clustering.foundation import usable_cores
from clustering.foundation.usable_cores import set_up_threads


@pytest.mark.parametrize(
    ("limit", "count"),
    [("max 100000", 16), ("400000 100000", 4), ("250000 100000", 3), ("10000 100000", 1), ("nonsense", 16), (None, 16)],
)
def test_no_more_threads_than_granted_and_the_user_goes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str | None, count: int
) -> None:
    monkeypatch.setattr(usable_cores, "_allowed", lambda: 16)
    monkeypatch.setattr(usable_cores, "_GRANTED", tmp_path / "cpu.max")
    if limit is not None:
        (tmp_path / "cpu.max").write_text(limit + "\n")
    assert usable_cores.usable_cores() == count
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    set_up_threads()
    assert os.environ["OMP_NUM_THREADS"] == "7"
    monkeypatch.delenv("OMP_NUM_THREADS")
    set_up_threads()
    assert os.environ.get("OMP_NUM_THREADS") == (str(count) if count < 16 else None)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
