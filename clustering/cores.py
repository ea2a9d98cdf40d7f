"""Work that every core does by itself, on items too small to be shared between cores."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

import torch

T = TypeVar("T")
R = TypeVar("R")


def on_each_core(work: Callable[[T], R], items: Iterable[T]) -> Iterator[tuple[T, R]]:
    """Every item with what `work` makes of it, in order.

    As many threads as torch may use each take an item and keep to one core; a few items are under way at once,
    whatever their number. With one thread, nothing is made ahead of being asked for.
    """
    cores = torch.get_num_threads()
    if cores == 1:
        for item in items:
            yield item, work(item)
        return
    torch.set_num_threads(1)
    try:
        with ThreadPoolExecutor(cores, initializer=torch.set_num_threads, initargs=(1,)) as pool:
            waiting: deque[tuple[T, Future[R]]] = deque()
            for item in items:
                waiting.append((item, pool.submit(work, item)))
                if len(waiting) > 2 * cores:
                    item, future = waiting.popleft()
                    yield item, future.result()
            for item, future in waiting:
                yield item, future.result()
    finally:
        torch.set_num_threads(cores)
