"""Safe reading of pickles from other programs: arrays, text and numbers in lists and dicts. No code is executed."""

import math
import pickle
import re
import textwrap
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from clustering.files.regular import open_regular
from clustering.foundation.errors import InputError

PICKLES = (".pkl", ".pickle", ".plk")  # file name suffixes
KIND = re.compile(r"[?]|[biuf]\d{1,2}|[SU]\d{1,6}|O8?")


def read_pickle(path: Path) -> Any:
    """Read a pickle of any protocol that contains dicts, lists, tuples, text, numbers and numpy arrays (read-only).

    A pickle is a program that calls functions by name. The few names that store arrays and dicts are mapped to the
    functions of `ALLOWED`, which check their arguments; all other names are refused. Strings of Python 2 become text of
    one character per byte, a defaultdict becomes a dict.

    Raises:
        InputError: the file is missing or damaged, or contains objects that only executed code could build; the
            message names the file.
    """
    path = Path(path)
    try:
        with open_regular(path) as file:
            content = _Reader(file, encoding="latin1").load()
        if isinstance(content, (_Name, _Dtype)):
            raise ValueError("a type in place of a value")
        return content
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


class _Reader(pickle._Unpickler):  # private, but as old as Python 3
    """Reads in Python, because the reader in C reserves memory for as many objects as a file claims to number. It takes
    2 s for a million numbers, or for 50,000 arrays."""

    def load_bytearray8(self) -> None:
        """Bytes instead, which the file must contain before memory is reserved."""
        read: Callable[[int], bytes] = self.read  # type: ignore[attr-defined]
        self.append(read(int.from_bytes(read(8), "little")))  # type: ignore[attr-defined]

    dispatch: ClassVar[Any] = {**pickle._Unpickler.dispatch, pickle.BYTEARRAY8[0]: load_bytearray8}

    def find_class(self, module: str, name: str) -> "_Name":
        full = f"{module.replace('numpy._core', 'numpy.core').replace('__builtin__', 'builtins')}.{name}"
        if full not in ALLOWED:
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
        return ALLOWED[self.full](*arguments)


class _Dtype:
    """The data type of an array in the order in which a pickle stores it: first the kind, then the byte order."""

    __slots__ = ("kind", "order")

    def __init__(self, kind: Any, *_: Any) -> None:
        if not KIND.fullmatch(_text(kind)):
            raise ValueError(f"an array of {kind!r}")
        self.kind, self.order = kind, ""

    def __setstate__(self, state: Any) -> None:
        if _text(state[1]) not in ("<", ">", "|", "=") or any(part is not None for part in state[2:5]):
            raise ValueError("an array of records")
        self.order = state[1]


class _Array(np.ndarray[Any, Any]):
    """An array in the order in which a pickle stores it: first an empty one, then its contents."""

    def __repr__(self) -> str:
        return repr(self.view(np.ndarray))

    def __setstate__(self, state: Any) -> None:
        _, shape, dtype, fortran, data = state
        super().__setstate__((1, shape, _checked(dtype, shape, data), bool(fortran), data))  # type: ignore[arg-type]


def _checked(dtype: Any, shape: Any, data: Any) -> np.dtype[Any]:
    """The type of an array with this shape and these bytes (text of Python 2, or a list of objects)."""
    if not isinstance(dtype, _Dtype):
        raise ValueError("an array without a type")
    if type(shape) is not tuple or not all(type(side) is int and side >= 0 for side in shape):
        raise ValueError("an array without a shape")
    is_object = dtype.kind.startswith("O")
    kind = np.dtype(object if is_object else dtype.order + dtype.kind if dtype.kind != "?" else "?")
    if not isinstance(data, list if is_object else (bytes, bytearray, str)):
        raise ValueError("an array of other data than its type")
    if len(data) != math.prod(shape) * (1 if is_object else kind.itemsize):
        raise ValueError("an array of another size than its data")
    return kind


def _from_buffer(data: Any, dtype: Any, shape: Any, order: Any) -> NDArray[Any]:
    data = data.encode("latin1") if isinstance(data, str) else data
    kind = _checked(dtype, shape, data)
    flat: NDArray[Any] = np.frombuffer(data, kind) if len(data) else np.empty(0, kind)
    flat = flat if kind.isnative else flat.astype(kind.newbyteorder("="))
    return flat.reshape(shape, order="F" if order == "F" else "C")


def _encode(text: str, encoding: Any = "latin1") -> bytes:
    if encoding not in ("latin1", "latin-1"):
        raise ValueError("text in another encoding than Latin-1")
    return text.encode("latin1")


def _nothing_to_call(*arguments: Any) -> Any:
    """Replacement of a type that is only an argument: the class of an array, or the default of a defaultdict."""
    if arguments:
        raise ValueError("a type that is called like a function")
    return []


ALLOWED: Mapping[str, Callable[..., Any]] = {
    "numpy.dtype": _Dtype,
    "numpy.ndarray": _nothing_to_call,
    "numpy.core.multiarray._reconstruct": lambda *_: _Array(0, np.uint8),
    "numpy.core.multiarray.scalar": lambda dtype, data: _from_buffer(data, dtype, (1,), "C")[0].item(),
    "numpy.core.numeric._frombuffer": _from_buffer,
    "_codecs.encode": _encode,
    "collections.defaultdict": lambda *_: {},
    "collections.OrderedDict": lambda *pairs: dict(*pairs),
    "builtins.list": _nothing_to_call,
    "builtins.bytes": lambda: b"",
    "builtins.bytearray": lambda data=b"", *_: bytes(data) if isinstance(data, (bytes, bytearray)) else _encode(data),
}
"""What the names in a pickle stand for."""


def _text(value: Any) -> str:
    if not isinstance(value, str):  # the text of another object may be endless
        raise ValueError("another value in place of text")
    return value


def _printable(text: str) -> str:
    words = "".join(letter if letter.isprintable() else "?" for letter in text)
    return textwrap.shorten(words, 100, placeholder="...")
