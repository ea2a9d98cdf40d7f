"""Safe reading of pickles from other programs: arrays, text and numbers in lists and dicts. No code is executed."""

import mmap
import pickle
import pickletools
import re
import textwrap
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clustering.files.regular import open_regular
from clustering.foundation import memory
from clustering.foundation.errors import InputError

PICKLES = (".pkl", ".pickle", ".plk")  # file name suffixes
_UNNOTICED = 1 << 28  # bytes that any file may expand to; a repeated reference takes only two bytes of the file
KIND = re.compile(r"[?]|[biuf]\d{1,2}|[SU]\d{1,6}|O8?")


def read_pickle(path: Path) -> Any:
    """Read a pickle of any protocol that contains dicts, lists, tuples, text, numbers and numpy arrays (read-only).

    A pickle is a program that calls functions by name. This reader never looks up a name. The few names that store
    arrays and dicts are mapped to the functions below, which check their arguments; all other names are refused.
    Strings of Python 2 become text if they are keys, and bytes otherwise. A defaultdict becomes a dict, and an array of
    objects becomes a list.

    Raises:
        InputError: the file is missing or damaged, or contains objects that only executed code could build; the
            message names the file.
    """
    path = Path(path)
    try:
        with open_regular(path) as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            _check_codes(content)
            value = _Plain()(_Reader(file, encoding="bytes").load())
            _extent(value, _UNNOTICED + 16 * len(content), {})
            return value
    except FileNotFoundError as error:
        raise InputError(f"{path}: no such file") from error
    except _ForbiddenError as error:
        raise InputError(
            f"{path}: contains {error}, which requires executing code, so the file is not loaded; save only its "
            "arrays, as .npz"
        ) from error
    except Exception as error:  # a damaged pickle may raise any error
        reason = _printable(str(error)) or type(error).__name__
        raise InputError(f"{path}: damaged, or not a pickle ({reason}); download it again") from error


class _ForbiddenError(Exception):
    """The pickle uses a name that is not needed to store data."""


def _check_codes(content: mmap.mmap) -> None:
    """Check, before loading, that the memory for a pickle is proportional to its size.

    If an object is stored in the memo at a large index, the memo is allocated up to this index. Five bytes can
    therefore require gigabytes.
    """
    place, codes, size = 0, 0, len(content)
    while place < size:
        code = content[place]
        codes, place = codes + 1, place + 1
        if code not in _WIDTHS:
            raise ValueError("an unknown code")
        width = _WIDTHS[code]
        if width >= 0:
            argument = content[place : place + width] if code == _LONG_BINPUT else b""
            index = int.from_bytes(argument, "little")
            place += width
        elif width == pickletools.UP_TO_NEWLINE:
            end = content.find(b"\n", place)
            if code in _TWO_LINES:
                end = content.find(b"\n", end + 1) if end >= 0 else end
            if end < 0:
                raise ValueError("it is truncated")
            index = int(content[place:end]) if code == _PUT else 0
            place = end + 1
        else:
            prefix = _PREFIXES[width]
            index, place = 0, place + prefix + int.from_bytes(content[place : place + prefix], "little")
        if index > codes:
            raise ValueError("an index exceeds the number of objects")
        if code == _STOP:
            break
    if place > size:
        raise ValueError("it is truncated")
    memory.require("reading it", {"objects": 64.0 * codes, "numbers": float(size)}, "use a smaller file")


_WIDTHS = {ord(code.code): 0 if code.arg is None else code.arg.n for code in pickletools.opcodes}
_PREFIXES = {
    pickletools.TAKEN_FROM_ARGUMENT1: 1,
    pickletools.TAKEN_FROM_ARGUMENT4: 4,
    pickletools.TAKEN_FROM_ARGUMENT4U: 4,
    pickletools.TAKEN_FROM_ARGUMENT8U: 8,
}
_STOP, _PUT, _LONG_BINPUT = pickle.STOP[0], pickle.PUT[0], pickle.LONG_BINPUT[0]
_TWO_LINES = (pickle.GLOBAL[0], pickle.INST[0])


def _extent(value: Any, limit: int, known: dict[int, int]) -> int:
    """Size in bytes of a value if it were converted to one array; an object counts at each place where it occurs.

    Raises:
        ValueError: the size is above `limit`. For example, thirty lists, each twice in the next, make an array of a
            thousand million numbers.
    """
    if isinstance(value, np.ndarray):
        return value.nbytes
    if isinstance(value, (str, bytes)):
        return 4 * len(value)
    if not isinstance(value, (list, tuple, dict)):
        return 8
    if id(value) not in known:
        known[id(value)] = limit + 1  # a list that contains itself has infinite size
        items = value.values() if isinstance(value, dict) else value
        known[id(value)] = 8 + sum(_extent(item, limit, known) for item in items)
    if known[id(value)] > limit:
        raise ValueError("its lists are nested too often")
    return known[id(value)]


class _Reader(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> "_Name":
        full = f"{module.replace('numpy._core', 'numpy.core').replace('__builtin__', 'builtins')}.{name}"
        if full not in MEANT:
            raise _ForbiddenError(_printable(f"{module}.{name}"))
        return _Name(full)

    def persistent_load(self, key: Any) -> Any:
        raise _ForbiddenError("objects outside the file")


class _Name:
    """A name in a pickle. The object is new for each use, so that changes by the pickle affect nothing else."""

    __slots__ = ("full",)

    def __init__(self, full: str) -> None:
        self.full = full

    def __call__(self, *arguments: Any) -> Any:
        return MEANT[self.full](*arguments)


class _Dtype:
    """The data type of an array in the order in which a pickle stores it: first the kind, then the byte order."""

    __slots__ = ("kind", "order")

    def __init__(self, kind: str) -> None:
        if not KIND.fullmatch(kind):
            raise ValueError(f"an array of {kind!r}")
        self.kind, self.order = kind, ""

    def __setstate__(self, state: Any) -> None:
        order = _text(state[1])
        if order not in ("<", ">", "|", "=") or any(part is not None for part in state[2:5]):
            raise ValueError("an array of records")
        self.order = order

    def array(self, data: Any, shape: Any, fortran: bool) -> Any:
        """The array of these bytes, which are copied only if their byte order differs from the machine's."""
        if type(shape) is not tuple or not all(type(side) is int and side >= 0 for side in shape):
            raise ValueError("an array without a shape")
        if self.kind.startswith("O"):
            if type(data) is not list or shape != (len(data),):
                raise ValueError("an array of objects in several dimensions")
            return data
        data = data.encode("latin1") if isinstance(data, str) else data
        dtype = np.dtype(self.order + self.kind if self.kind != "?" else "?")
        flat: NDArray[Any] = np.frombuffer(data, dtype) if len(data) else np.empty(0, dtype)
        flat = flat if dtype.isnative else flat.astype(dtype.newbyteorder("="))
        return flat.reshape(shape, order="F" if fortran else "C")


class _Array:
    """An array in the order in which a pickle stores it: first an empty object, then its contents."""

    __slots__ = ("made",)

    def __init__(self) -> None:
        self.made: Any = None

    def __setstate__(self, state: Any) -> None:
        _, shape, dtype, fortran, data = state
        self.made = _as_dtype(dtype).array(data, shape, bool(fortran))


def _reconstruct(kind: Any, shape: Any, code: Any) -> _Array:
    return _Array()


def _frombuffer(data: Any, dtype: Any, shape: Any, order: Any) -> Any:
    return _as_dtype(dtype).array(data, shape, _text(order) == "F")


def _scalar(dtype: Any, data: Any) -> Any:
    return _as_dtype(dtype).array(data, (1,), False)[0].item()


def _encode(text: str, encoding: Any = "latin1") -> bytes:
    if encoding not in ("latin1", "latin-1", b"latin1", b"latin-1"):
        raise ValueError("text in another encoding than Latin-1")
    return text.encode("latin1")


def _nothing_to_call(*arguments: Any) -> Any:
    """Replacement of a type that is only an argument: the class of an array, or the default of a defaultdict."""
    if arguments:
        raise ValueError("a type that is called like a function")
    return []


MEANT: Mapping[str, Callable[..., Any]] = {
    "numpy.dtype": lambda kind, *_: _Dtype(_text(kind)),
    "numpy.ndarray": _nothing_to_call,
    "numpy.core.multiarray._reconstruct": _reconstruct,
    "numpy.core.multiarray.scalar": _scalar,
    "numpy.core.numeric._frombuffer": _frombuffer,
    "_codecs.encode": _encode,
    "collections.defaultdict": lambda *_: {},
    "collections.OrderedDict": lambda *pairs: dict(*pairs),
    "builtins.list": _nothing_to_call,
    "builtins.bytes": lambda: b"",
    "builtins.bytearray": lambda data=b"", *_: bytes(data) if isinstance(data, (bytes, bytearray)) else _encode(data),
}


class _Plain:
    """Replace unfinished arrays by finished ones, and the byte keys of Python 2 by text.

    Each list, dict and tuple is visited once, even if it occurs several times; otherwise a few nested tuples would take
    millions of visits.
    """

    def __init__(self) -> None:
        self._seen: set[int] = set()
        self._tuples: dict[int, tuple[Any, Any]] = {}  # original (kept so that its id is not reused), result

    def __call__(self, value: Any) -> Any:
        if isinstance(value, _Array):
            return self(value.made)
        if isinstance(value, tuple):
            if id(value) not in self._tuples:
                self._tuples[id(value)] = value, tuple(self(item) for item in value)
            return self._tuples[id(value)][1]
        if isinstance(value, (_Name, _Dtype)):
            raise ValueError("a type in place of a value")
        if not isinstance(value, (list, dict)) or id(value) in self._seen:
            return value
        self._seen.add(id(value))
        if isinstance(value, list):
            value[:] = [self(item) for item in value]
            return value
        items = [(_text(key) if isinstance(key, bytes) else self(key), self(item)) for key, item in value.items()]
        value.clear()
        value.update(items)
        return value


def _as_dtype(value: Any) -> _Dtype:
    if not isinstance(value, _Dtype):
        raise ValueError("an array without a type")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, (bytes, str)):  # their own text may be endless
        raise ValueError("another value in place of text")
    return value.decode("latin1") if isinstance(value, bytes) else value


def _printable(text: str) -> str:
    words = "".join(letter if letter.isprintable() else "?" for letter in text)
    return textwrap.shorten(words, 100, placeholder="...")
