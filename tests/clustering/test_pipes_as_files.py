"""Pipes, endless fields and huge files of settings in the place of files: a message instead of a program that hangs."""

import os

import pytest

from clustering.files.array_files import open_arrays
from clustering.files.regular import fingerprint_of_files, head_of, read_text
from clustering.files.tables import RowFile
from clustering.files.tensor_headers import read_header
from clustering.files.training_state import load_state
from clustering.files.words import read_words
from clustering.foundation.errors import InputError


@pytest.fixture
def pipe(tmp_path):
    def make(name):
        os.mkfifo(tmp_path / name)
        return tmp_path / name

    return make


def test_no_reader_waits_for_a_pipe(pipe):
    for read in (read_text, lambda path: fingerprint_of_files([path])):
        with pytest.raises(OSError, match="not a regular file"):
            read(pipe(f"{id(read)}"))
    assert head_of(pipe("head")) == b""
    assert load_state(pipe("last.ckpt")) is None
    for read, name in (
        (open_arrays, "a.npy"),
        (RowFile.read, "a.csv"),
        (lambda path: read_header(path, "remedy"), "a.safetensors"),
        (lambda path: read_words(path, ["name"]), "a.txt"),
    ):
        with pytest.raises(InputError, match=name):
            read(pipe(name))


def test_a_long_field_is_said(tmp_path):
    path = tmp_path / "names.csv"
    path.write_text("name\n" + "x" * 200_000 + "\n")
    with pytest.raises(InputError, match=r"names\.csv"):
        read_words(path, ["name"])
