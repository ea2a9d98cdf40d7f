"""Small work keeps to one core, large work does not; numbers of threads are afterwards what they were."""

import os
import subprocess
import sys
import threading

import faiss  # noqa: F401  (its BLAS is built with OpenMP)
import numpy as np
import pytest
import torch
from threadpoolctl import ThreadpoolController

from clustering.foundation import cores
from clustering.foundation.cores import on_each_core, one_core, shared_if_large


def numbers() -> list[int]:
    """Of torch, and of every pool of OpenMP and BLAS, as this thread of Python sees them."""
    return [torch.get_num_threads(), *(one.get_num_threads() for one in ThreadpoolController().lib_controllers)]


@pytest.fixture(autouse=True)
def three_threads():
    with ThreadpoolController().limit(limits=3):
        before = torch.get_num_threads()
        torch.set_num_threads(3)
        yield
        assert numbers() == [3] * len(numbers())
        torch.set_num_threads(before)


def test_every_pool_keeps_to_one_and_is_set_back():
    with one_core():
        assert set(numbers()) == {1}
        with one_core():
            assert set(numbers()) == {1}
        assert set(numbers()) == {1}
    with pytest.raises(ZeroDivisionError), one_core():
        _ = 1 // 0


class Clusterer:
    def __init__(self, n_clusters, batch_size=None):
        self.n_clusters, self.batch_size = n_clusters, batch_size

    @shared_if_large
    def fit(self, X, y=None, *, what="fitted"):
        """How many threads it may use."""
        return what, torch.get_num_threads()


LARGE = np.broadcast_to(np.float32(0), (cores.WORTH_SHARING // 8, 4))


@pytest.mark.parametrize(
    ("estimator", "X", "threads"),
    [
        (Clusterer(np.int64(2)), LARGE, 3),
        (Clusterer(1), LARGE, 1),
        (Clusterer(2, batch_size=len(LARGE) // 2), LARGE, 1),  # of a step
        (Clusterer(2), [[0.0, 1.0], [1.0, 0.0]], 1),
        (Clusterer(2), [0.0] * len(LARGE), 1),
        (Clusterer("two"), LARGE, 1),  # what cannot be is refused by the fit, not here
        (Clusterer(2), "no table", 1),
    ],
)
def test_the_size_of_a_step_decides(estimator, X, threads):
    assert estimator.fit(X, what="done") == ("done", threads)


@pytest.mark.parametrize(
    ("own", "set_by_the_command"),
    [
        ({}, {"OMP_WAIT_POLICY": "PASSIVE"}),
        ({"OMP_WAIT_POLICY": "active"}, {}),
        ({"GOMP_SPINCOUNT": "1000"}, {}),
    ],
)
def test_the_command_lets_waiting_threads_sleep_and_an_import_changes_nothing(own, set_by_the_command):
    names = {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME"}
    shown = f"print({{n: os.environ[n] for n in {names} & os.environ.keys()}})"
    script = f"import os, sys, clustering, fairness, fsl, runs.cli; {shown}; runs.cli.main(['--version']); {shown}"
    environment = {name: value for name, value in os.environ.items() if name not in names} | own
    command = [sys.executable, "-c", f"{script}; sys.exit('torch' in sys.modules)"]
    found = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.splitlines()
    assert [found[0], found[-1]] == [str(own), str(own | set_by_the_command)]


@pytest.mark.parametrize("items", [0, 1, 40])
def test_every_item_once_and_in_order(items):
    assert list(on_each_core(lambda item: (item, set(numbers())), range(items))) == [
        (item, (item, {1})) for item in range(items)
    ]


def test_fits_in_threads_that_overlap_set_the_numbers_back():
    begun, joined, ended = threading.Event(), threading.Event(), threading.Event()

    def first():
        with one_core():
            begun.set()
            joined.wait(30)
        ended.set()

    def second():
        begun.wait(30)
        with one_core():
            joined.set()
            ended.wait(30)

    threads = [threading.Thread(target=work) for work in (first, second)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
