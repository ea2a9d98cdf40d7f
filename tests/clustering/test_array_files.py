"""Archives of arrays: nothing is unpacked before it is known how large it is; what is damaged is refused."""

import io
import os
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest

from clustering.files.arrays import open_arrays, read_arrays
from clustering.files.regular import head_of, read_text
from clustering.files.tables import read_table
from clustering.files.tensors import read_header
from clustering.files.torch_files import load_state
from clustering.files.words import read_words
from clustering.foundation.errors import InputError


def archive(path: Path, **members: bytes) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in members.items():
            file.writestr(f"{name}.npy", content)
    return path


def header(shape: str, kind: str = "<f4") -> bytes:
    text = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}".encode()
    text += b" " * (-(len(text) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x93NUMPY",
        b"no array",
        header("(1099511627776,)"),
        header("(-1,)"),
        header("(4,)"),
        header("(" * 4000),
        header("(4,)", "|O") + bytes(32),
        header("(10000000000,)", "<U0"),
        header("(2,)", "|V9999999999999"),
        header("(4, True)") + bytes(16),
        b"\x93NUMPY\x02\x00" + struct.pack("<I", 2**32 - 1) + b"{",
    ],
)
def test_what_an_array_promises_is_held_against_what_there_is(tmp_path: Path, content: bytes) -> None:
    path = archive(tmp_path / "bad.npz", x=content)
    with pytest.raises(ValueError, match=r"."):
        read_arrays(path)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_a_flipped_bit_is_refused_or_changes_nothing(tmp_path: Path, save) -> None:
    path, x = tmp_path / "a.npz", np.arange(40)
    save(path, x=x)
    whole = path.read_bytes()
    for place in range(len(whole)):
        data = bytearray(whole)
        data[place] ^= 1 << place % 8
        path.write_bytes(data)
        try:
            found = read_arrays(path)
        except (OSError, ValueError):
            continue
        assert all(np.array_equal(array, x) for array in found.values())


def test_what_is_no_archive_is_refused(tmp_path: Path) -> None:
    npy = io.BytesIO()
    np.save(npy, np.eye(2))
    for number, content in enumerate((b"", b"PK\x03\x04", npy.getvalue(), b"\x80\x04N.")):
        path = tmp_path / f"{number}.npz"
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"."):
            read_arrays(path)


def test_what_is_no_file_is_not_opened(tmp_path: Path) -> None:
    """Readers do not wait for a pipe that nobody writes to, nor read a device without end."""
    for name in ("pipe", "last.ckpt", "a.npy", "a.csv", "a.safetensors", "a.txt"):
        os.mkfifo(tmp_path / name)
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for path in (tmp_path, tmp_path / "pipe", tmp_path / "loop", tmp_path / "none", Path("/dev/zero")):
        for read in (read_text, read_arrays):
            with pytest.raises(OSError, match=r"."):
                read(path)
    assert head_of(tmp_path / "pipe") == b""
    assert load_state(tmp_path / "last.ckpt") is None
    for reader, name in (
        (open_arrays, "a.npy"),
        (read_table, "a.csv"),
        (lambda path: read_header(path, "remedy"), "a.safetensors"),
        (lambda path: read_words(path, ["name"]), "a.txt"),
    ):
        with pytest.raises(InputError, match=name):
            reader(tmp_path / name)


def test_a_long_field_is_said(tmp_path: Path) -> None:
    path = tmp_path / "names.csv"
    path.write_text("name\n" + "x" * 200_000 + "\n")
    with pytest.raises(InputError, match=r"names\.csv"):
        read_words(path, ["name"])
