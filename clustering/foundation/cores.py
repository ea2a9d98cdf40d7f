"""Which work the cores share, and which each core does by itself.

Threads that share a step wait for each other at its end. Where other programs use the cores, too, one of them may have
to wait for its turn first, so that a step must be long enough for that (`benchmarks/busy_cores.py`).
"""

import functools
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sized
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from numbers import Integral
from typing import Any, TypeVar

import torch

from clustering.foundation.one_core import every_core, keep_this_thread_to_one_core, one_core, one_core_of_blas

T = TypeVar("T")
R = TypeVar("R")
Method = TypeVar("Method", bound=Callable[..., Any])

WORTH_SHARING = 1 << 22
"""Elementary operations of a step, from which on the cores share it: a few milliseconds of one core."""


def on_each_core(work: Callable[[T], R], items: Iterable[T]) -> Iterator[tuple[T, R]]:
    """Every item with what `work` makes of it, in order; for items that are too small for the cores to share.

    As many threads as torch may use each take an item and keep to one core; a few items are under way at once,
    whatever their number. With one thread, nothing is made ahead of being asked for. The thread that asks keeps its
    number of threads of torch, whichever one closes this.
    """
    cores = torch.get_num_threads()
    if cores == 1:
        for item in items:
            yield item, work(item)
        return
    with one_core_of_blas(), ThreadPoolExecutor(cores, initializer=keep_this_thread_to_one_core) as pool:
        waiting: deque[tuple[T, Future[R]]] = deque()
        for item in items:
            waiting.append((item, pool.submit(work, item)))
            if len(waiting) > 2 * cores:
                item, future = waiting.popleft()
                yield item, future.result()
        for item, future in waiting:
            yield item, future.result()


def shared_if_large(method: Method) -> Method:
    """A method of an estimator with `n_clusters`, given X (N, D), that keeps to one core where X is small.

    A step of these methods looks at every value for every cluster: N D K operations, or those of a batch, where the
    estimator has a `batch_size`. Steps that take far more say so themselves (`all_if_large`). The result is the same
    but for rounding.
    """

    @functools.wraps(method)
    def run(self: Any, X: Any, *arguments: Any, **options: Any) -> Any:
        with nullcontext() if _operations(self, X) >= WORTH_SHARING else one_core():
            return method(self, X, *arguments, **options)

    return run  # type: ignore[return-value]


def all_if_large(operations: float) -> AbstractContextManager[None]:
    """For a step with so many operations, also within a method that keeps to one core."""
    return every_core() if operations >= WORTH_SHARING else nullcontext()


def _operations(estimator: Any, X: Any) -> float:
    """Of a step; 0 for what is no table, which is refused."""
    shape, clusters = _shape(X), getattr(estimator, "n_clusters", None)
    if not isinstance(shape, tuple) or len(shape) != 2 or not isinstance(clusters, Integral):
        return 0.0
    rows, columns = shape
    stored, batch = getattr(X, "nnz", rows * columns), getattr(estimator, "batch_size", None)
    share = min(1.0, batch / rows) if isinstance(batch, Integral) and rows else 1.0
    return float(stored * share * int(clusters))


def _shape(X: Any) -> Any:
    """Of a list, which may be ragged, by its first row."""
    if isinstance(X, (list, tuple)) and X and isinstance(X[0], Sized):
        return len(X), len(X[0])
    return getattr(X, "shape", ())
