"""Arrays in files of other programs: .npy, .npz, .pt, .safetensors and .parquet. No code in a file is executed.

Names, types and shapes are read first, so that a choice among the arrays, and the memory they need, are known before
their values are read.
"""

import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from clustering.files.arrays import ArrayKind, NamedArrays, array_kinds, native, read_array, read_arrays
from clustering.files.regular import head_of
from clustering.foundation.errors import InputError, reason

if TYPE_CHECKING:
    from torch import Tensor

FORMATS = {
    ".npy": "an array of NumPy",
    ".npz": "an archive of arrays of NumPy",
    ".pt": "a file of torch.save",
    ".pth": "a file of torch.save",
    ".safetensors": "a safetensors file",
    ".parquet": "a Parquet file",
    ".pq": "a Parquet file",
}
ENDINGS = ", ".join(FORMATS)
_OTHERS = {
    b"\x89HDF": "an HDF5 file",
    b"ARROW1": "an Arrow file",
    b"MATLAB": "a file of MATLAB",
    b"\x1f\x8b": "compressed with gzip",
    b"\x80": "a pickle",
}
_OLD_TORCH = b"\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."  # in the first bytes of torch.save's files before PyTorch 1.6


def open_arrays(path: str | Path) -> NamedArrays:
    """The arrays of a file, in the format of its extension.

    Arrays have the stored precision and native byte order; bfloat16, which NumPy does not have, becomes float32. Lists
    of numbers or text in a dict of torch.save are arrays, too.

    Raises:
        InputError: the file is missing, empty, truncated, damaged, or of another format, or it contains objects that
            require executing code. The message names the file. `read` raises it, too.
        ImportError: pyarrow is not installed, which .parquet requires.
    """
    path = Path(path)
    suffix = path.suffix.lower()
    _check(path, suffix)
    try:
        opened = _OPEN[suffix](path)
    except Exception as error:  # what the libraries raise for a damaged file cannot be listed
        raise _named(path, error) from error

    def read(names: Sequence[str]) -> Mapping[str, NDArray[Any]]:
        try:
            return {name: native(array) for name, array in opened.read(names).items()}
        except Exception as error:
            raise _named(path, error) from error

    return replace(opened, read=read)


def _check(path: Path, suffix: str) -> None:
    """Check extension and size of a file, and that its first bytes are not those of another format."""
    if not path.is_file():
        raise InputError(f"{path}: {'not a file' if path.exists() else 'no such file'}; give a file of arrays")
    try:
        head, size = head_of(path, 256), path.stat().st_size
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); give a file of arrays") from error
    if not size:
        raise InputError(f"{path}: the file is empty; write it again")
    actual = _content(path, head, size)
    if suffix not in FORMATS:
        remedy = f"rename it to {path.stem}{actual}" if actual in FORMATS else "convert it"
        raise InputError(f"{path}: arrays are read from {ENDINGS}; {remedy}")
    if actual in FORMATS and FORMATS[actual] != FORMATS[suffix]:
        raise InputError(f"{path}: is {FORMATS[actual]}, not {FORMATS[suffix]}; rename it to {path.stem}{actual}")
    if actual in _OTHERS.values():
        raise InputError(f"{path}: is {actual}, not {FORMATS[suffix]}; save the array as .npy, with numpy.save")


def _content(path: Path, head: bytes, size: int) -> str:
    """Extension or description of the format that a file begins like; empty if unknown."""
    for start, ending in ((b"\x93NUMPY", ".npy"), (b"PAR1", ".parquet")):
        if head.startswith(start):
            return ending
    if head.startswith(b"\x80") and _OLD_TORCH in head[:32]:
        return ".pt"
    if head.startswith(b"PK\x03\x04"):
        try:
            with zipfile.ZipFile(path) as archive:
                names = archive.namelist()
        except (OSError, ValueError, NotImplementedError, zipfile.BadZipFile):
            return ""
        if any(name.endswith("data.pkl") for name in names):
            return ".pt"
        return ".npz" if any(name.endswith(".npy") for name in names) else ""
    if head[8:9] == b"{" and int.from_bytes(head[:8], "little") < size:
        return ".safetensors"
    return next((words for start, words in _OTHERS.items() if head.startswith(start)), "")


def _named(path: Path, error: Exception) -> Exception:
    """The error with the name of the file; an InputError that has it, and a missing package, are returned unchanged."""
    if isinstance(error, ImportError) or (isinstance(error, InputError) and str(error).startswith(str(path))):
        return error
    if isinstance(error, InputError):
        return InputError(f"{path}: {error}")
    if "pickled objects" in str(error):
        return InputError(f"{path}: {error}; save numbers with a float dtype, and names with dtype=str")
    what = FORMATS[path.suffix.lower()]
    return InputError(f"{path}: damaged or truncated, or not {what} ({reason(error)}); write or download it again")


def _npy(path: Path) -> NamedArrays:
    array = read_array(path)
    return NamedArrays({"": ArrayKind(array.dtype.kind, array.shape)}, lambda names: {"": array})


def _npz(path: Path) -> NamedArrays:
    return NamedArrays(array_kinds(path), lambda names: read_arrays(path, lambda name: name in names))


def _safetensors(path: Path) -> NamedArrays:
    from clustering.files.tensors import read_any_tensors

    return _of_tensors(read_any_tensors(path, "write or download it again"))


def _torch(path: Path) -> NamedArrays:
    from torch import Tensor

    from clustering.files.torch_files import read_torch

    remedy = "save tensors (of arrays: torch.from_numpy) and lists of str, with torch.save({'features': ...}, FILE)"
    content = read_torch(path, "a file of tensors", remedy)
    if isinstance(content, Tensor):
        return _of_tensors({"": content})
    if isinstance(content, (list, tuple)):
        if len(content) > 2 and all(isinstance(row, Tensor) and row.ndim == 1 for row in content):
            raise InputError(f"contains a list of {len(content)} tensors; save one, torch.stack(rows)")
        content = {str(place): value for place, value in enumerate(content)}
    if not isinstance(content, Mapping):
        raise InputError(f"contains a {type(content).__name__}, not tensors; {remedy}")
    values = {str(name): value for name, value in content.items()}
    tensors = _of_tensors({name: value for name, value in values.items() if isinstance(value, Tensor)})
    lists = {name: _of_list(value) for name, value in values.items() if not isinstance(value, Tensor)}
    kinds = {name: ArrayKind(array.dtype.kind, array.shape) for name, array in lists.items()}
    return NamedArrays(
        {**tensors.kinds, **kinds},
        lambda names: {
            **tensors.read([n for n in names if n in tensors.kinds]),
            **{n: lists[n] for n in names if n in lists},
        },
    )


def _of_list(value: Any) -> NDArray[Any]:
    """Numbers or text as an array; of objects if they are anything else."""
    flat = value if isinstance(value, (list, tuple)) else [value]
    usable = all(isinstance(item, (int, float)) for item in flat) or all(isinstance(item, str) for item in flat)
    return np.array(value) if usable and len(flat) else np.empty(len(flat), dtype=object)


def _of_tensors(tensors: "Mapping[str, Tensor]") -> NamedArrays:
    return NamedArrays(
        {name: _kind(tensor) for name, tensor in tensors.items()},
        lambda names: {name: array_of_tensor(tensors[name]) for name in names},
    )


def _kind(tensor: "Tensor") -> ArrayKind:
    import torch

    if tensor.layout is not torch.strided or tensor.is_quantized or tensor.is_meta:
        return ArrayKind("O", tuple(tensor.shape))
    letter = "f" if tensor.is_floating_point() else "c" if tensor.is_complex() else "i"
    return ArrayKind("b" if tensor.dtype == torch.bool else letter, tuple(tensor.shape))


def array_of_tensor(tensor: "Tensor") -> NDArray[Any]:
    """The values of a tensor on the CPU, without gradient; bfloat16 and 8-bit floats become float32.

    Raises:
        InputError: the tensor is sparse, quantized or without values.
    """
    import torch

    if _kind(tensor).letter == "O":
        raise InputError("a tensor is sparse, quantized or without values; save tensor.to_dense() or its dequantize()")
    tensor = tensor.detach()
    if tensor.is_floating_point() and tensor.dtype not in (torch.float16, torch.float32, torch.float64):
        tensor = tensor.float()
    array: NDArray[Any] = tensor.cpu().resolve_conj().resolve_neg().contiguous().numpy()
    return array


def _parquet(path: Path) -> NamedArrays:
    from clustering.files.columns import open_parquet

    return open_parquet(path)


_OPEN: Mapping[str, Callable[[Path], NamedArrays]] = {
    ".npy": _npy,
    ".npz": _npz,
    ".pt": _torch,
    ".pth": _torch,
    ".safetensors": _safetensors,
    ".parquet": _parquet,
    ".pq": _parquet,
}
