"""Files of tensors: what changed since it was written is refused, however it is read."""

import json
import os
import stat
import struct
from pathlib import Path

import pytest
import torch

from clustering.files.atomic import replacing
from clustering.files.tensors import read_tensors, write_tensors
from clustering.files.torch_files import load_state, save_state
from clustering.foundation.errors import InputError

FORMAT = "transduce features 1"
TENSORS = {"features": torch.arange(12.0).view(4, 3), "labels": torch.tensor([0, 1, 0, 1])}
HEADER = {"format": FORMAT, "class_names": '["a", "b"]', "provenance": "{}"}


def written(folder: Path) -> Path:
    write_tensors(folder / "bank.safetensors", TENSORS, HEADER)
    return folder / "bank.safetensors"


def flip(path: Path, place: int, bit: int = 0) -> None:
    data = bytearray(path.read_bytes())
    data[place] ^= 1 << bit
    path.write_bytes(data)


def test_any_flipped_bit_of_the_tensors_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path)
    whole = path.read_bytes()
    begin = 8 + struct.unpack("<Q", whole[:8])[0]
    for place in range(begin, len(whole)):
        path.write_bytes(whole)
        flip(path, place, place % 8)
        with pytest.raises(InputError, match=r"bank\.safetensors"):
            read_tensors(path, FORMAT, "make it again")


def test_a_flipped_bit_of_the_header_is_refused_or_changes_nothing(tmp_path: Path) -> None:
    path = written(tmp_path)
    whole = path.read_bytes()
    for place in range(8 + struct.unpack("<Q", whole[:8])[0]):
        path.write_bytes(whole)
        flip(path, place)
        try:
            tensors, header = read_tensors(path, FORMAT, "make it again")
        except InputError:
            continue
        assert all(header.get(key) == value for key, value in HEADER.items())
        assert all(torch.equal(tensors[key], value) for key, value in TENSORS.items())


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x00",
        struct.pack("<Q", 2**60) + b"{}",
        struct.pack("<Q", 10**6) + b"{}",
        struct.pack("<Q", 200_000) + b"[" * 200_000,
        struct.pack("<Q", 2) + b"{}" + b"x" * 100,
        struct.pack("<Q", 70) + json.dumps({"a": {"dtype": "F32", "shape": [2**40], "data_offsets": [0, 4]}}).encode(),
    ],
)
def test_what_is_no_such_file_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "bad.safetensors"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"bad\.safetensors"):
        read_tensors(path, FORMAT, "make it again")


@pytest.mark.parametrize("mask", [0o022, 0o077, 0o002])
def test_files_have_the_permissions_of_any_other(tmp_path: Path, mask: int) -> None:
    before = os.umask(mask)
    try:
        written(tmp_path)
        save_state(tmp_path / "last.ckpt", {"epoch": 1})
        with replacing(tmp_path / "tight") as partial:
            partial.chmod(0o600)
        modes = {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    finally:
        os.umask(before)
    assert modes == {0o666 & ~mask}


def test_what_stops_a_writer_leaves_the_old_file_alone(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("old")

    def stopped() -> None:
        with replacing(path) as partial:
            partial.write_text("new")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stopped()
    assert {file.name: file.read_text() for file in tmp_path.iterdir()} == {"a.csv": "old"}


def test_a_damaged_state_is_none(tmp_path: Path) -> None:
    path = tmp_path / "last.ckpt"
    save_state(path, {"weights": torch.arange(1000.0)})
    assert load_state(path) is not None
    whole = path.read_bytes()
    for place in range(0, len(whole), 61):
        path.write_bytes(whole)
        flip(path, place)
        state = load_state(path)
        assert state is None or torch.equal(state["weights"], torch.arange(1000.0))
