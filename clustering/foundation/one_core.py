"""Work that keeps to one core, whatever else this process does."""

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
    """Meanwhile torch, OpenMP and BLAS use one thread for what this thread of Python asks of them.

    Blocks may be nested, and other threads of Python may have their own: OpenMP (so torch, and scikit-learn) keeps a
    number for each of them. BLAS of numpy and scipy keeps one for all, which is set back after the last block.
    """
    if _HERE.before is not None:
        yield
        return
    _enter()
    try:
        yield
    finally:
        _leave()


@contextmanager
def every_core() -> Iterator[None]:
    """Within a block of `one_core`: as many threads as before it, for a step that is worth them."""
    if _HERE.before is None:
        yield
        return
    _leave()
    try:
        yield
    finally:
        _enter()


@contextmanager
def one_core_of_blas() -> Iterator[None]:
    """Meanwhile BLAS of numpy and scipy uses one thread, whichever thread of Python asks, or ends this."""
    _BLAS.take(_libraries()[0])
    try:
        yield
    finally:
        _BLAS.release()


def keep_this_thread_to_one_core() -> None:
    """For good, with torch and OpenMP: of a thread of Python that is made for that."""
    torch.get_num_threads()  # a thread that is new to torch would take its number at the first operation
    for library in _libraries()[1]:
        library.set_num_threads(1)
    _of_mkl(1)


class _Here(threading.local):
    """Numbers of threads of OpenMP before the block that this thread of Python is in; None outside of one."""

    before: list[tuple[Any, int]] | None = None


_HERE = _Here()
_ALL = 0  # for MKL: as many as of all threads of Python


def _enter() -> None:
    torch.get_num_threads()  # a thread that is new to torch would take its number at the first operation
    blas, openmp = _libraries()
    _HERE.before = [(library, library.get_num_threads()) for library in openmp]
    _BLAS.take(blas)
    keep_this_thread_to_one_core()


def _leave() -> None:
    before, _HERE.before = _HERE.before or [], None
    _BLAS.release()  # first, since BLAS built with OpenMP sets the number of OpenMP as well
    for library, count in before:
        library.set_num_threads(count)
    _of_mkl(_ALL)


class _Blas:
    """The threads of BLAS, of which there is one number for all threads of Python that are in a block."""

    def __init__(self) -> None:
        self._lock, self._blocks = threading.Lock(), 0
        self._before: list[tuple[Any, int]] = []

    def take(self, libraries: Sequence[Any]) -> None:
        with self._lock:
            if not self._blocks:
                owed = {library.filepath: count for library, count in self._before}
                now = [(library, owed.get(library.filepath, library.get_num_threads())) for library in libraries]
                self._before = [(library, count) for library, count in now if count]
                for library, _ in self._before:
                    library.set_num_threads(1)
            self._blocks += 1

    def release(self) -> None:
        with self._lock:
            self._blocks -= 1
            if not self._blocks:
                for library, count in self._before:
                    library.set_num_threads(count)
                # OpenBLAS listens to the main thread alone: what another could not set back, the next release does.
                self._before = [
                    (library, count) for library, count in self._before if library.get_num_threads() != count
                ]


_BLAS = _Blas()


def _libraries() -> tuple[list[Any], list[Any]]:
    """Those of BLAS and those of OpenMP that are loaded; looked for anew, which takes milliseconds, after imports."""
    global _loaded
    modules = len(sys.modules)
    if _loaded[0] != modules:
        every = ThreadpoolController().lib_controllers
        blas, openmp = ([one for one in every if one.user_api == kind] for kind in ("blas", "openmp"))
        _loaded = modules, blas, openmp
    return _loaded[1:]


_loaded: tuple[int, list[Any], list[Any]] = (0, [], [])


def _mkl() -> Callable[[int], int]:
    """MKL's number of threads of this thread of Python, which goes before the one that `torch.set_num_threads` sets."""
    try:
        loaded: Any = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"))
        change: Callable[[int], int] = loaded.MKL_Set_Num_Threads_Local
        return change
    except (OSError, AttributeError):  # a torch without MKL
        return lambda count: 0


_of_mkl = _mkl()
