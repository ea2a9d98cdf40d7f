"""Files of arrays, tensors and rows: what was written is read, what is damaged, hostile or no file is refused."""

import csv
import gzip
import io
import json
import os
import stat
import struct
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from clustering.files.arrays import open_arrays, read_arrays
from clustering.files.atomic import replacing
from clustering.files.regular import head_of, read_text
from clustering.files.tables import read_table
from clustering.files.tensors import read_header, read_tensors, write_tensors
from clustering.files.torch_files import load_state, save_state
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


TEXT = 'id,name,size\n007,"a, b",1.50\n008,c,-2e3\n'


@pytest.fixture
def csv_file(tmp_path: Path) -> Path:
    path = tmp_path / "t.csv"
    path.write_text(TEXT)
    return path


def test_csv_is_written_as_it_was_read(csv_file, tmp_path):
    rows = read_table(csv_file)
    assert rows.names == ["id", "name", "size"]
    assert rows.numbers("size").tolist() == [1.5, -2000]
    out = rows.save(tmp_path / "out.csv", {"cluster": np.array([1, 0]), "confidence": np.array([0.5, np.nan])})
    assert out.read_text() == 'id,name,size,cluster,confidence\n007,"a, b",1.50,1,0.5\n008,c,-2e3,0,\n'
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.csv", "t.csv"]  # nothing is left beside it


@settings(max_examples=30)
@given(
    st.lists(
        st.tuples(st.text("ab,;\"' \t0", max_size=5), st.floats(allow_nan=False, allow_infinity=False)), min_size=1
    ),
    st.sampled_from(",;\t"),
)
def test_cells_come_out_as_they_went_in(tmp_path_factory, cells, delimiter):
    folder = tmp_path_factory.mktemp("csv")
    frame = pd.DataFrame(cells, columns=["first", "second"])
    frame.to_csv(folder / "in.csv", sep=delimiter, index=False)
    rows = read_table(folder / "in.csv")
    assert rows.delimiter == delimiter
    np.testing.assert_array_equal(rows.numbers("second"), frame["second"])
    again = read_table(rows.save(folder / "out.csv", {"cluster": np.arange(len(frame))}))
    assert again.rows["first"].tolist() == frame["first"].tolist()
    assert again.rows["second"].tolist() == rows.rows["second"].tolist()
    assert again.numbers("cluster").tolist() == list(range(len(frame)))


@pytest.mark.parametrize(
    ("text", "names", "first"),
    [
        ("\ufeffgröße;preis\r\n1,5;3\r\n2;4\r\n", ["größe", "preis"], "1,5"),  # a comma is no delimiter there
        (",a\n0,5\n1,6\n", ["", "a"], "0"),
        ('"size; width; height",weight\n1,2\n', ["size; width; height", "weight"], "1"),
        ("sep=;\na,b;c\n1,5;2\n", ["a,b", "c"], "1,5"),
        ('name,note\na,"two\nlines, and a comma"\n', ["name", "note"], "a"),
    ],
)
def test_other_ways_to_write_a_table(tmp_path, text, names, first):
    (tmp_path / "t.csv").write_bytes(text.encode())
    found = read_table(tmp_path / "t.csv")
    assert found.names == names
    assert found.rows.iloc[0, 0] == first
    if first == "1,5":
        assert found.numbers(names[0])[0] == 1.5


def test_packed_columns_of_tabs(tmp_path):
    with gzip.open(tmp_path / "t.tsv.gz", "wt") as file:
        file.write("a\tb\n1\t\n")
    packed = read_table(tmp_path / "t.tsv.gz")
    assert packed.numbers("a").tolist() == [1]
    assert np.isnan(packed.numbers("b")).all()
    assert not packed.numeric("b")


def test_parquet_keeps_its_kinds(tmp_path):
    frame = pd.DataFrame(
        {"n": [1, 2], "flag": [True, False], "word": ["x", None], "day": pd.to_datetime(["2020-01-01"] * 2)}
    )
    frame.to_parquet(tmp_path / "t.parquet")
    rows = read_table(tmp_path / "t.parquet")
    assert rows.numbers("flag").tolist() == [1, 0]
    assert [name for name in rows.names if rows.numeric(name)] == ["n", "flag"]
    for name in ("word", "day"):
        with pytest.raises(InputError, match=rf"'{name}' .*row 1"):
            rows.numbers(name)
    out = rows.save(tmp_path / "o.parquet", {"cluster": np.array([0, 1])})
    pd.testing.assert_frame_equal(pd.read_parquet(out).drop(columns="cluster"), frame)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("t.xlsx", b"PK", ["t.xlsx", "CSV UTF-8"]),
        ("t.csv", b"", ["no rows"]),
        ("t.csv", b"a,b\n", ["no rows"]),
        ("t.csv", b"1,2\n3,4\n", ["numbers"]),
        ("t.csv", b"a,a\n1,2\n", ["'a'"]),
        ("t.csv", b"a,b\n1,2,3\n", ["2 names"]),
        ("t.csv", b"# of 2024\na,b\n1,2\n", ["above the header"]),
        ("t.csv", b"a,b\n1,2\n1,2,3\n", ["2 fields", "line 3"]),
        ("t.csv", b"a,,\n1,2,3\n", ["two columns have no name"]),
        ("t.csv", b"a,b\n1,2\n3,\0\n", ["line 3 has a NUL byte"]),
        ("t.csv", "a,b\n1,2\n".encode("utf-16"), ["UTF-8"]),
        ("t.csv", ",".join(f"c{i}" for i in range(100_000)).encode(), ["100,000 columns", "10,000"]),
        ("t.csv", "a,ü\n1,2\n".encode("latin-1"), ["UTF-8"]),
        ("t.parquet", b"junk", ["Parquet"]),
        ("t.npz", b"junk", ["must be a table"]),
        (
            "t.csv",
            b'name,x,y\n"1 inch,1,2\n2 inch,3,4\n"3 inch,5,6\n4 inch,7,8\n',
            ["line 2, column 'name': the quote"],
        ),
        ("t.csv", b"price\tarea\n980\t1\n1,020\t2\n5,000\t3\n", ["'price' has values such as 1,020"]),
        ("t.csv", b"price,area\n980,1\n1.020,2\n5.000,3\n", ["'price' has values such as 1.020"]),
        ("t.csv", b"price;area\n980;50,1\n1.020;50,2\n5.000;50,3\n", ["'price' has values such as 1.020"]),
        ("t.csv", b'price,area\n1,2\n"3,4\n5,6\n', ["a quote in line 3 is not closed; remove"]),
        ("t.csv", b'sep=,\nprice,area\n1,2\n"3,4\n5,6\n', ["a quote in line 4 is not closed; remove"]),
        ("t.csv", b"price,area\n1,2\n3,4,5\n", ["Expected 2 fields in line 3, saw 3; remove"]),
    ],
)
def test_what_cannot_be_read_says_why(tmp_path, name, content, words):
    (tmp_path / name).write_bytes(content)
    for word in words:
        with pytest.raises(InputError, match=word):
            read_table(tmp_path / name).numbers("price")


def test_wrong_columns_name_the_nearest(csv_file):
    with pytest.raises(InputError, match=r"'sizes'.* 'size'"):
        read_table(csv_file).numbers("sizes")
    with pytest.raises(InputError, match=r"'name' .*row 1 \('a, b'\)"):
        read_table(csv_file).numbers("name")
    with pytest.raises(InputError, match="no file"):
        read_table(csv_file.with_name("other.csv"))
    csv_file.write_text("\n".join(["a", *map(str, range(1500)), "many", "3"]))
    with pytest.raises(InputError, match=r"row 1501 \('many'\)"):
        read_table(csv_file).numbers("a")


def test_output_is_refused_before_anything_is_lost(csv_file, tmp_path):
    rows = read_table(csv_file)
    for path, word in (
        (csv_file, "the table itself"),
        (tmp_path / "o.parquet", "ends with"),
        (tmp_path / "no" / "o.csv", "no folder"),
    ):
        with pytest.raises(InputError, match=word):
            rows.check_output(path, ["cluster"])
    with pytest.raises(InputError, match="already has a column 'size'"):
        rows.check_output(tmp_path / "o.csv", ["size"])
    assert csv_file.read_text() == TEXT


def test_text_that_is_added_is_no_formula_and_the_file_stays_as_it_is(tmp_path):
    """The cells of a person's own file are theirs: a formula among them, blanks, a quote, a line end of either kind."""
    cells = ["=1+1", " 007", 'a "b"', "x\ny", "x\ry", "@me", "", "end"]
    with (tmp_path / "t.csv").open("w", newline="") as file:
        csv.writer(file, quoting=csv.QUOTE_ALL).writerows([["own"], *([cell] for cell in cells)])
    rows = read_table(tmp_path / "t.csv")
    added = ["=1+1", "+x", "-x", "@x", "-1", "plain", "\tx", "\n=1"]
    out = rows.save(tmp_path / "o.csv", {"cluster": np.array(added)})
    with out.open(newline="") as file:
        lines = list(csv.reader(file))[1:]
    assert [line[0] for line in lines] == cells
    assert [line[1] for line in lines] == ["'=1+1", "'+x", "'-x", "'@x", "-1", "plain", "'\tx", "'\n=1"]


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_rows_without_a_value_to_add_come_out_empty(tmp_path, ending):
    path, frame = tmp_path / f"t.{ending}", pd.DataFrame({"a": [5, 6, 7]})
    getattr(frame, f"to_{ending}")(path, **({"index": False} if ending == "csv" else {}))
    rows = np.array([0, 2])
    added = {"cluster": np.array([1, 0]), "name": np.array(["x", "y"]), "sure": np.array([0.5, 1], dtype=np.float32)}
    out = read_table(path).save(tmp_path / f"o.{ending}", added, rows)
    if ending == "csv":
        assert out.read_text() == "a,cluster,name,sure\n5,1,x,0.5\n6,,,\n7,0,y,1.0\n"
        return
    found = pd.read_parquet(out)
    assert found["a"].tolist() == [5, 6, 7]
    assert [value for value in found["cluster"].tolist() if not pd.isna(value)] == [1, 0]
    assert found["name"].tolist()[::2] == ["x", "y"]
    assert np.isnan(found["sure"][1])
