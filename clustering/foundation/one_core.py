"""Restriction of work to one core, independent of the rest of the process."""

import ctypes
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from threadpoolctl import ThreadpoolController


@contextmanager
def one_core() -> Iterator[None]:
    """Context in which torch, OpenMP and BLAS use one thread for calls from this Python thread.

    Contexts can be nested and used in several Python threads: OpenMP (hence torch and scikit-learn) has a number of
    threads for each of them. BLAS of numpy and scipy has one number for all, which is restored after the last context
    ends.
    """
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
    """Context in which BLAS of numpy and scipy uses one thread, for calls from any Python thread."""
    _BLAS.take(_libraries()[0])
    try:
        yield
    finally:
        _BLAS.release()


def keep_this_thread_to_one_core() -> None:
    """Restrict a Python thread permanently, with torch and OpenMP; for threads created for this purpose."""
    torch.get_num_threads()  # otherwise a thread new to torch would set its number at the first operation
    for library in _libraries()[1]:
        library.set_num_threads(1)
    _of_mkl(1)


class _ThreadState(threading.local):
    """OpenMP thread numbers before the context of this Python thread; None outside of one."""

    before: list[tuple[Any, int]] | None = None


_THREAD = _ThreadState()
_ALL = 0  # for MKL: the number set for all Python threads


def _enter() -> None:
    torch.get_num_threads()  # otherwise a thread new to torch would set its number at the first operation
    blas, openmp = _libraries()
    _THREAD.before = [(library, library.get_num_threads()) for library in openmp]
    _BLAS.take(blas)
    keep_this_thread_to_one_core()


def _leave() -> None:
    before, _THREAD.before = _THREAD.before or [], None
    _BLAS.release()  # first, since a BLAS built with OpenMP also sets the number of OpenMP
    for library, count in before:
        library.set_num_threads(count)
    _of_mkl(_ALL)


class _Blas:
    """The number of BLAS threads, shared by all Python threads that are in a context."""

    def __init__(self) -> None:
        self._lock, self._blocks = threading.Lock(), 0
        self._before: list[tuple[Any, int]] = []

    def take(self, libraries: Sequence[Any]) -> None:
        with self._lock:
            if not self._blocks:
                owed = {library.filepath: count for library, count in self._before}
                current = [(library, owed.get(library.filepath, library.get_num_threads())) for library in libraries]
                self._before = [(library, count) for library, count in current if count]
                for library, _ in self._before:
                    library.set_num_threads(1)
            self._blocks += 1

    def release(self) -> None:
        with self._lock:
            self._blocks -= 1
            if not self._blocks:
                for library, count in self._before:
                    library.set_num_threads(count)
                # OpenBLAS can be set from the main thread only; the next release there restores the number.
                self._before = [
                    (library, count) for library, count in self._before if library.get_num_threads() != count
                ]


_BLAS = _Blas()


def _libraries() -> tuple[list[Any], list[Any]]:
    """The loaded BLAS and OpenMP libraries; searched again after imports, which takes milliseconds."""
    global _loaded
    modules = len(sys.modules)
    if _loaded[0] != modules:
        controllers = ThreadpoolController().lib_controllers
        blas, openmp = ([library for library in controllers if library.user_api == kind] for kind in ("blas", "openmp"))
        _loaded = modules, blas, openmp
    return _loaded[1:]


_loaded: tuple[int, list[Any], list[Any]] = (0, [], [])


def _mkl() -> Callable[[int], int]:
    """MKL's number of threads for this Python thread, which overrides the one that `torch.set_num_threads` sets."""
    try:
        loaded: Any = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"))
        change: Callable[[int], int] = loaded.MKL_Set_Num_Threads_Local
        return change
    except (OSError, AttributeError):  # a torch without MKL
        return lambda count: 0


_of_mkl = _mkl()
