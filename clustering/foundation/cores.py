"""Work that is shared between cores, and work that one core does alone.

Threads that share a step wait for each other at its end. If other programs use the cores, a thread may first have to
wait for its turn, so a step must be long enough to be worth sharing.
"""

import functools
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sized
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from numbers import Integral
from typing import Any, TypeVar

import torch
from threadpoolctl import ThreadpoolController

T = TypeVar("T")
R = TypeVar("R")
Method = TypeVar("Method", bound=Callable[..., Any])

WORTH_SHARING = 1 << 22
"""Number of elementary operations from which on a step is shared between cores: a few milliseconds on one core."""

_LOCK = threading.Lock()
_BLAS: list[Any] = []
"""For each context in which BLAS uses one thread, what restores its number, which is that of the process."""


@functools.lru_cache(maxsize=1)
def _controller(modules: int) -> ThreadpoolController:
    """The loaded BLAS and OpenMP libraries; searched again after imports, which takes milliseconds."""
    return ThreadpoolController()


@contextmanager
def one_core() -> Iterator[None]:
    """Context in which torch, OpenMP and BLAS use one thread for calls from this Python thread; contexts can be
    nested."""
    threads, openmp = torch.get_num_threads(), _openmp_on_one_core()
    try:
        with _blas_on_one_core():  # within, since a BLAS built with OpenMP also sets the number of OpenMP
            torch.set_num_threads(1)
            yield
    finally:
        openmp.restore_original_limits()
        torch.set_num_threads(threads)


def _openmp_on_one_core() -> Any:
    """Limit OpenMP for calls from this Python thread; the result restores it."""
    return _controller(len(sys.modules)).select(user_api="openmp").limit(limits=1)


@contextmanager
def _blas_on_one_core() -> Iterator[None]:
    """Context in which BLAS uses one thread for calls from any Python thread."""
    with _LOCK:  # the first of concurrent contexts knows the number of BLAS, and the last one restores it
        _BLAS.append(_BLAS[0] if _BLAS else _controller(len(sys.modules)).select(user_api="blas").limit(limits=1))
    try:
        yield
    finally:
        with _LOCK:
            blas = _BLAS.pop()
            if not _BLAS:
                blas.restore_original_limits()


def _keep_to_one_core() -> None:
    """Limit torch and OpenMP in a Python thread of a pool, once for all its items."""
    torch.set_num_threads(1)
    _openmp_on_one_core()


def on_each_core(work: Callable[[T], R], items: Iterable[T]) -> Iterator[tuple[T, R]]:
    """Yield the result of `work` for each item, in order; for items that are too small to be shared between cores.

    As many threads as torch may use each process an item on one core; only a few items are in progress at a time. With
    one thread, items are processed on demand. The number of torch threads of the calling thread does not change.
    """
    cores = torch.get_num_threads()
    if cores == 1:
        yield from ((item, work(item)) for item in items)
        return
    with _blas_on_one_core(), ThreadPoolExecutor(cores, initializer=_keep_to_one_core) as pool:
        waiting: deque[tuple[T, Future[R]]] = deque()
        for item in items:
            waiting.append((item, pool.submit(work, item)))
            if len(waiting) > 2 * cores:
                item, future = waiting.popleft()
                yield item, future.result()
        for item, future in waiting:
            yield item, future.result()


def shared_if_large(method: Method) -> Method:
    """Decorator for a method of an estimator with `n_clusters` and X (N, D) that uses one core if X is small.

    A step of these methods takes N D K operations, or those of a batch if the estimator has a `batch_size`; the search
    for the neighbours of a graph takes N^2. The result is the same up to rounding.
    """

    @functools.wraps(method)
    def run(self: Any, X: Any, *arguments: Any, **options: Any) -> Any:
        with nullcontext() if _operations(self, X) >= WORTH_SHARING else one_core():
            return method(self, X, *arguments, **options)

    return run  # type: ignore[return-value]


def _operations(estimator: Any, X: Any) -> float:
    """Number of operations of a step; 0 for input that is not a table, which is rejected later."""
    shape, clusters = getattr(X, "shape", ()), getattr(estimator, "n_clusters", None)
    clusters = 8 if isinstance(clusters, str) and clusters == "auto" else clusters
    if isinstance(X, (list, tuple)) and X and isinstance(X[0], Sized):
        shape = len(X), len(X[0])
    if not isinstance(shape, tuple) or len(shape) != 2 or not isinstance(clusters, Integral):
        return 0.0
    (rows, columns), batch = shape, getattr(estimator, "batch_size", None)
    step = min(rows, batch) if isinstance(batch, Integral) else rows
    return float(max(step * columns * int(clusters), rows**2 if hasattr(estimator, "n_neighbors") else 0))
