"""Small work keeps to one core, large work does not; numbers of threads are afterwards what they were."""

import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import faiss  # noqa: F401  (its BLAS is built with OpenMP)
import numpy as np
import pytest
import torch
from scipy import sparse
from threadpoolctl import ThreadpoolController

from clustering import SLK, KMeans
from clustering.foundation import cores
from clustering.foundation.cores import on_each_core, shared_if_large
from clustering.foundation.one_core import one_core
from clustering.graphs import row_search
from clustering.graphs.row_search import nearest_rows


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


def test_what_the_user_set_is_an_upper_bound():
    torch.set_num_threads(2)
    with one_core():
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == 2
    torch.set_num_threads(3)


def test_products_of_torch_are_of_one_thread_though_a_number_was_set():
    """MKL has a number of its own, which torch sets."""
    x = torch.randn(500, 500)

    def disturbs_others() -> bool:
        before = threads_of_this_process()
        for _ in range(3):
            x @ x
        return threads_of_this_process() != before

    with one_core():
        assert not all(disturbs_others() for _ in range(20)), "of all threads"
    if threads_of_this_process():
        assert all(disturbs_others() for _ in range(5))


def threads_of_this_process() -> dict[str, str]:
    """The processor time of every thread but this one, where the system tells."""
    folder, own = "/proc/self/task", str(threading.get_native_id())
    if not os.path.isdir(folder):
        return {}
    times = {}
    for name in sorted(os.listdir(folder)):
        with open(f"{folder}/{name}/schedstat") as file:
            times[name] = file.read().split()[0]
    times.pop(own)
    return times


def test_work_on_each_core_is_of_one_thread_in_every_pool():
    before = numbers()
    assert all(set(seen) == {1} for _, seen in on_each_core(lambda _: numbers(), range(4)))
    assert numbers() == before


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
        (Clusterer(2), LARGE, 3),
        (Clusterer(np.int64(2)), LARGE, 3),
        (Clusterer(1), LARGE, 1),
        (Clusterer(2, batch_size=len(LARGE) // 2), LARGE, 1),  # of a step
        (Clusterer(2, batch_size=2 * len(LARGE)), LARGE, 3),
        (Clusterer(2), sparse.csr_array((len(LARGE), 4), dtype=np.float32), 1),  # by what is stored
        (Clusterer(2), [[0.0, 1.0], [1.0, 0.0]], 1),
        (Clusterer(2), [[0.0] * 4] * len(LARGE), 3),
        (Clusterer(2), [0.0] * len(LARGE), 1),
        (Clusterer("two"), LARGE, 1),  # what cannot be is refused by the fit, not here
        (Clusterer(2), "no table", 1),
    ],
)
def test_the_size_of_a_step_decides(estimator, X, threads):
    assert estimator.fit(X, what="done") == ("done", threads)


@pytest.mark.parametrize(
    ("points", "columns", "search", "threads"),
    [(1797, 64, "blocks", 1), (2100, 12, "blocks", 3), (1797, 3, "tree", 1), (20_000, 3, "tree", 3)],
)
def test_a_large_search_for_neighbours_is_shared_within_a_fit_on_one_core(points, columns, search, threads):
    x = torch.rand(points, columns)
    seen = set()
    with one_core():
        nearest_rows(x, 5, search, lambda finished, total: seen.add(tuple(numbers())))
        assert set(numbers()) == {1}
    assert {number for row in seen for number in row} == {threads}


def test_a_fit_searches_on_all_cores_and_goes_on_by_one(monkeypatch):
    seen, by_tree = [], row_search._by_tree
    monkeypatch.setattr(row_search, "_by_tree", lambda *given: seen.append(torch.get_num_threads()) or by_tree(*given))
    X = np.random.default_rng(0).standard_normal((20_000, 2))
    SLK(2, n_init=1, max_iter=1, random_state=0).fit(X)
    assert seen == [3]


def test_work_on_each_core_leaves_the_thread_that_asks_as_it_was():
    """Also where another one closes it, but for BLAS built with OpenMP, which has a number for each thread."""
    found = on_each_core(lambda item: item, range(1000))
    next(found)
    assert torch.get_num_threads() == 3
    with ThreadPoolExecutor(1) as pool:
        pool.submit(found.close).result(30)
    assert torch.get_num_threads() == 3
    for library in ThreadpoolController().lib_controllers:
        library.set_num_threads(3)


def test_results_do_not_depend_on_it(monkeypatch):
    X = np.random.default_rng(0).standard_normal((300, 5)) + 8 * np.arange(3).repeat(100)[:, None]
    small = KMeans(3, random_state=0).fit(X)
    monkeypatch.setattr(cores, "WORTH_SHARING", 0)
    shared = KMeans(3, random_state=0).fit(X)
    np.testing.assert_array_equal(small.labels_, shared.labels_)
    np.testing.assert_allclose(small.objective_, shared.objective_)


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
