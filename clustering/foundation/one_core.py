"""Restriction of work to one core, by threadpoolctl."""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from threadpoolctl import ThreadpoolController


@contextmanager
def one_core() -> Iterator[None]:
    """Context in which torch, OpenMP and BLAS use one thread for calls from this Python thread. Contexts can be
    nested."""
    if _THREAD.before is not None:
        yield
        return
    _enter()
    try:
        yield
    finally:
        _leave()


@contextmanager
def every_core() -> Iterator[None]:
    """Within `one_core`, restores the previous number of threads for a step that is worth them."""
    if _THREAD.before is None:
        yield
        return
    _leave()
    try:
        yield
    finally:
        _enter()


@contextmanager
def one_core_of_blas() -> Iterator[None]:
    """Context in which BLAS of numpy and scipy uses one thread, for calls from any Python thread.

    Its number of threads is that of the process, so it is restored when the last of concurrent contexts ends.
    """
    global _in_use, _blas
    with _LOCK:
        if not _in_use:
            _blas = _controller().select(user_api="blas").limit(limits=1)
        _in_use += 1
    try:
        yield
    finally:
        with _LOCK:
            _in_use -= 1
            if not _in_use:
                _blas.restore_original_limits()


def keep_this_thread_to_one_core() -> None:
    """Restrict a Python thread permanently, with torch and OpenMP, which count threads by Python thread."""
    torch.set_num_threads(1)
    _controller().select(user_api="openmp").limit(limits=1)


class _ThreadState(threading.local):
    """What restores the threads of this Python thread after its context: torch's number, OpenMP's limits and the
    context of BLAS. None outside of one."""

    before: tuple[int, Any, Any] | None = None


_THREAD, _LOCK = _ThreadState(), threading.Lock()
_in_use = 0
_blas: Any = None
_loaded: tuple[int, Any] = (0, None)


def _enter() -> None:
    threads, blas = torch.get_num_threads(), one_core_of_blas()
    openmp = _controller().select(user_api="openmp").limit(limits=1)  # before a BLAS built with OpenMP, as faiss's,
    blas.__enter__()  # sets the number that is noted here
    _THREAD.before = threads, openmp, blas
    torch.set_num_threads(1)


def _leave() -> None:
    assert _THREAD.before is not None
    (threads, openmp, blas), _THREAD.before = _THREAD.before, None
    blas.__exit__(None, None, None)  # first, since a BLAS built with OpenMP also sets the number of OpenMP
    openmp.restore_original_limits()
    torch.set_num_threads(threads)


def _controller() -> ThreadpoolController:
    """The loaded BLAS and OpenMP libraries; searched again after imports, which takes milliseconds."""
    global _loaded
    if _loaded[0] != len(sys.modules):
        _loaded = len(sys.modules), ThreadpoolController()
    return _loaded[1]
