"""Devices by name, number formats, the allocator."""

import subprocess
import sys

import pytest
import torch

from clustering.errors import InputError
from fsl.machine import has_fast_bfloat16, resolve_device
from fsl.progress import quiet


def test_devices_by_name() -> None:
    assert resolve_device("cpu") == torch.device("cpu")
    assert resolve_device("auto").type == ("cuda" if torch.cuda.is_available() else "cpu")


@pytest.mark.parametrize("name", ["gpu", "", "cuda:99", "cuda:x"])
def test_devices_that_are_not_there(name: str) -> None:
    with pytest.raises(InputError, match=r"device .*; use |device .* use device="):
        resolve_device(name)


def test_bfloat16_on_a_processor_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx2": True}, raising=False)
    assert not has_fast_bfloat16(torch.device("cpu"))
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx512_bf16": True}, raising=False)
    assert has_fast_bfloat16(torch.device("cpu"))


FAULTS = """
import contextlib, resource, sys, torch
from fsl.machine import keep_freed_memory, large_buffers_returned
took = keep_freed_memory() if sys.argv[1] != "leave" else True
def use():
    for _ in range(10):
        torch.ones(12_000_000)  # 48 MB: more than glibc keeps by itself
with large_buffers_returned() if sys.argv[1] == "return" else contextlib.nullcontext():
    use()
    if sys.argv[1] == "again":
        with large_buffers_returned():
            use()
        use()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    use()
print(took, resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="a setting of glibc")
def test_freed_memory_is_kept() -> None:
    """Counted in page faults: a buffer that the system took back is faulted in again, page by page."""

    def faults(how: str) -> tuple[str, int]:
        run = subprocess.run([sys.executable, "-c", FAULTS, how], capture_output=True, text=True, check=True)
        took, count = run.stdout.split()
        return took, int(count)

    took, kept = faults("keep")
    if took == "False":
        pytest.skip("this C library has no mallopt")
    assert kept < 100
    left = faults("leave")[1]
    assert kept < left
    assert faults("return")[1] >= left  # unless large buffers are to go back for a while
    assert faults("again")[1] < 100


def test_quiet_progress_takes_everything() -> None:
    with quiet.track("nothing", 3) as advance:
        advance()
        advance(2, loss=1.0)
    quiet.note("heard by nobody")
