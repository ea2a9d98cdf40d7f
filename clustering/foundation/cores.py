"""Work that is shared between cores, and work that each core does on its own.

Threads that share a step wait for each other at its end. If other programs use the cores, a thread may first have to
wait for its turn, so a step must be long enough to be worth sharing.
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
"""Number of elementary operations from which on a step is shared between cores: a few milliseconds on one core."""


def on_each_core(work: Callable[[T], R], items: Iterable[T]) -> Iterator[tuple[T, R]]:
    """Yield the result of `work` for each item, in order; for items that are too small to be shared between cores.

    As many threads as torch may use each process an item on one core; only a few items are in progress at a time. With
    one thread, items are processed on demand. The number of torch threads of the calling thread does not change.
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
    """Decorator for a method of an estimator with `n_clusters` and X (N, D) that uses one core if X is small.

    A step of these methods takes N D K operations, or those of a batch if the estimator has a `batch_size`. Steps that
    take many more are marked by `all_if_large`. The result is the same up to rounding.
    """

    @functools.wraps(method)
    def run(self: Any, X: Any, *arguments: Any, **options: Any) -> Any:
        with nullcontext() if _operations(self, X) >= WORTH_SHARING else one_core():
            return method(self, X, *arguments, **options)

    return run  # type: ignore[return-value]


def all_if_large(operations: float) -> AbstractContextManager[None]:
    """Context for a step with this number of operations, which may use all cores even within a method on one core."""
    return every_core() if operations >= WORTH_SHARING else nullcontext()


def _operations(estimator: Any, X: Any) -> float:
    """Number of operations of a step; 0 for input that is not a table, which is rejected later."""
    shape, clusters = _shape(X), getattr(estimator, "n_clusters", None)
    if not isinstance(shape, tuple) or len(shape) != 2 or not isinstance(clusters, Integral):
        return 0.0
    rows, columns = shape
    stored, batch = getattr(X, "nnz", rows * columns), getattr(estimator, "batch_size", None)
    share = min(1.0, batch / rows) if isinstance(batch, Integral) and rows else 1.0
    return float(stored * share * int(clusters))


def _shape(X: Any) -> Any:
    """Shape of an array or list; that of a possibly ragged list is determined by its first row."""
    if isinstance(X, (list, tuple)) and X and isinstance(X[0], Sized):
        return len(X), len(X[0])
    return getattr(X, "shape", ())
