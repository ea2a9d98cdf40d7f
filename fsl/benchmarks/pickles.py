"""Reading of pickled arrays without running the code in a file."""

import math
import pickle
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from clustering.files.regular import open_regular
from clustering.foundation.errors import InputError, reason

PICKLES = (".pkl", ".pickle", ".plk")  # file name suffixes
_KIND = re.compile(r"[?]|[biuf]\d{1,2}|[SU]\d{1,6}|O8?")


def read_pickle(path: Path) -> Any:
    """Read a pickle of any protocol that contains dicts, lists, tuples, text, numbers and numpy arrays (read-only).

    A pickle is a program that calls functions by name. The names that store arrays and dicts are mapped to `ALLOWED`,
    whose functions check their arguments; all others are refused. Strings of Python 2 become text of one character per
    byte, a defaultdict becomes a dict. A million numbers, or 50,000 arrays, take 2 s.

    Raises:
        InputError: the file is missing or damaged, or contains objects that only executed code could build; the
            message names the file.
    """
    path = Path(path)
    try:
        with open_regular(path) as file:
            return _Reader(file, encoding="latin1").load()
    except FileNotFoundError as error:
        raise InputError(f"{path}: no such file") from error
    except _ForbiddenError as error:
        raise InputError(
            f"{path}: contains {reason(error)}, which requires executing code, so the file is not loaded; save only "
            "its arrays, as .npz"
        ) from error
    except Exception as error:  # a damaged pickle may raise any error
        raise InputError(f"{path}: damaged, or not a pickle ({reason(error)}); download it again") from error


class _ForbiddenError(Exception):
    """The pickle uses a name that is not needed to store data."""


class _Reader(pickle._Unpickler):  # the reader in C reserves memory for as many objects as a file claims to number
    def load_bytearray8(self) -> None:
        """Bytes instead, which the file must contain before memory is reserved."""
        read: Callable[[int], bytes] = self.read  # type: ignore[attr-defined]
        self.append(read(int.from_bytes(read(8), "little")))  # type: ignore[attr-defined]

    dispatch: ClassVar[Any] = {**pickle._Unpickler.dispatch, pickle.BYTEARRAY8[0]: load_bytearray8}

    def find_class(self, module: str, name: str) -> Callable[..., Any]:
        full = f"{module.replace('numpy._core', 'numpy.core').replace('__builtin__', 'builtins')}.{name}"
        if full not in ALLOWED:
            raise _ForbiddenError(f"{module}.{name}")
        return lambda *arguments: ALLOWED[full](*arguments)  # a new one, so that a pickle cannot change the function

    def persistent_load(self, key: Any) -> Any:
        raise _ForbiddenError("objects outside the file")


class _Dtype:
    """The data type of an array in the order in which a pickle stores it: first the kind, then the byte order. What
    else a pickle says of a type could make numpy read bytes as addresses."""

    __slots__ = ("kind", "order")

    def __init__(self, kind: Any, *_: Any) -> None:
        if not _KIND.fullmatch(kind):
            raise ValueError("an array of records")
        self.kind, self.order = kind, ""

    def __setstate__(self, state: Any) -> None:
        if type(state[1]) is not str or state[1] not in "<>|=" or any(part is not None for part in state[2:5]):
            raise ValueError("an array of records")
        self.order = state[1]


class _Array(np.ndarray[Any, Any]):
    """An array in the order in which a pickle stores it: first an empty one, then its contents."""

    def __setstate__(self, state: Any) -> None:
        _, shape, dtype, fortran, data = state
        super().__setstate__((1, shape, _checked(dtype, shape, data), bool(fortran), data))  # type: ignore[arg-type]


def _checked(dtype: Any, shape: Any, data: Any) -> np.dtype[Any]:
    """The type of an array with this shape and these bytes (text of Python 2, or a list of objects)."""
    if type(dtype) is not _Dtype or type(shape) is not tuple or not all(type(n) is int and n >= 0 for n in shape):
        raise ValueError("an array without type or shape")
    is_object = dtype.kind.startswith("O")
    kind = np.dtype(object if is_object else dtype.kind if dtype.kind == "?" else dtype.order + dtype.kind)
    matches = isinstance(data, list if is_object else (bytes, str))
    if not matches or len(data) != math.prod(shape) * (1 if is_object else kind.itemsize):
        raise ValueError("an array of another size than its data")
    return kind


def _from_buffer(data: Any, dtype: Any, shape: Any, order: Any) -> NDArray[Any]:
    kind = _checked(dtype, shape, data)
    flat = np.frombuffer(data.encode("latin1") if isinstance(data, str) else data, kind, math.prod(shape))
    return flat.astype(kind.newbyteorder("="), copy=False).reshape(shape, order="F" if order == "F" else "C")


def _encode(text: Any = "", encoding: Any = "latin1") -> bytes:
    if isinstance(text, bytes):
        return text
    if type(encoding) is not str or encoding not in ("latin1", "latin-1"):
        raise ValueError("text in another encoding than Latin-1")
    return bytes(text.encode("latin1"))


def _type(*arguments: Any) -> Any:
    """A type that is only an argument: the class of an array, or the default of a defaultdict."""
    raise ValueError("a type that is called like a function")


ALLOWED: Mapping[str, Callable[..., Any]] = {
    "numpy.dtype": _Dtype,
    "numpy.ndarray": _type,
    "numpy.core.multiarray._reconstruct": lambda *_: _Array(0, np.uint8),
    "numpy.core.multiarray.scalar": lambda dtype, data: _from_buffer(data, dtype, (1,), "C")[0].item(),
    "numpy.core.numeric._frombuffer": _from_buffer,
    "_codecs.encode": _encode,
    "collections.defaultdict": lambda *_: {},
    "collections.OrderedDict": lambda *pairs: dict(*pairs),
    "builtins.list": _type,
    "builtins.bytes": lambda *_: b"",
    "builtins.bytearray": lambda data=b"", encoding="latin1": _encode(data, encoding),
}
"""What the names in a pickle stand for."""
