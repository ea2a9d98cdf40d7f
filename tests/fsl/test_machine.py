"""Devices by name, number formats, the allocator."""

import subprocess
import sys

import pytest
import torch

from clustering.foundation.errors import InputError
from fsl.machine import resolve_device


def test_devices_by_name() -> None:
    assert resolve_device("cpu") == torch.device("cpu")
    assert resolve_device("auto").type == ("cuda" if torch.cuda.is_available() else "cpu")


@pytest.mark.parametrize("name", ["gpu", "", "cuda:99", "cuda:x"])
def test_devices_that_are_not_there(name: str) -> None:
    with pytest.raises(InputError, match=r"device .*; use |device .* use device="):
        resolve_device(name)


FAULTS = """
import os, resource, torch
from fsl.machine import keep_freed_memory, large_buffers_returned
def use(times):
    for _ in range(times):
        torch.ones(12_000_000)  # 48 MB: more than glibc keeps by itself
def faults():
    use(10)  # the first ones fault in what is kept
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    use(2)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
took = keep_freed_memory()
if not os.fork():
    print(int(took), faults(), flush=True)
    os._exit(0)
os.wait()
with large_buffers_returned():
    print(faults())
print(faults())
"""


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="a setting of glibc")
def test_freed_memory_is_kept() -> None:
    """Counted in page faults: a buffer that the system took back is faulted in again, page by page."""

    run = subprocess.run([sys.executable, "-c", FAULTS], capture_output=True, text=True, check=True)
    took, kept, returned, again = map(int, run.stdout.split())
    if not took:
        pytest.skip("this C library has no mallopt")
    assert kept < 100
    assert returned > 100  # unless large buffers are to go back for a while
    assert again < 100
