"""Files of features in every format: what is given comes back, what is damaged or wrong is named."""

import contextlib
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from pyarrow import parquet
from safetensors.torch import save_file

from clustering.feature_files import read_class_names, read_features, read_labels
from clustering.foundation.errors import InputError
from fsl.features.bank import FeatureBank
from fsl.features.foreign import import_features

RANDOM = np.random.default_rng(0)
NAMES_FILES = ("ant", "bee", "cat")
X, Y, T = RANDOM.normal(size=(8, 4)).astype("f4"), np.arange(8) % 3, RANDOM.normal(size=(3, 4)).astype("f4")


def fixed_lists(rows: Any) -> Any:
    return pa.FixedSizeListArray.from_arrays(pa.array(rows.reshape(-1)), rows.shape[1])


WRITERS = {  # name of a file -> what writes these rows
    "bare.npy": np.save,
    "one.npz": lambda path, rows: np.savez_compressed(path, features=rows),
    "bare.pt": lambda path, rows: torch.save(torch.from_numpy(rows.copy()), path),
    "dict.pth": lambda path, rows: torch.save({"features": torch.from_numpy(rows.copy()), "epoch": 3, "of": "x"}, path),
    "one.safetensors": lambda path, rows: save_file({"embeddings": torch.from_numpy(rows.copy()).contiguous()}, path),
    "lists.parquet": lambda path, rows: parquet.write_table(
        pa.table({"row": np.arange(len(rows)), "embedding": list(rows)}), path, row_group_size=3
    ),
    "fixed.pq": lambda path, rows: parquet.write_table(
        pa.table({"embedding": fixed_lists(rows), "caption": ["a text"] * len(rows)}), path
    ),
    "columns.parquet": lambda path, rows: pd.DataFrame(
        rows, columns=[f"f{i}" for i in range(rows.shape[1])], index=np.arange(len(rows)) + 5
    ).to_parquet(path),
    "frame.parquet": lambda path, rows: pd.DataFrame({"embedding": list(rows), "path": "a.png"}).to_parquet(path),
}


@st.composite
def features(draw: st.DrawFn) -> Any:
    dtype = draw(st.sampled_from(["f2", "f4", "f8"]))
    shape = draw(st.tuples(st.integers(1, 9), st.integers(1, 5)))
    numbers = st.floats(1 / 16, 100, width=16) | st.floats(-100, -1 / 16, width=16)
    rows = draw(hnp.arrays(dtype, shape, elements=numbers))
    labels = draw(hnp.arrays("i8", len(rows), elements=st.integers(0, 2)))
    text = draw(hnp.arrays(dtype, (3, shape[1]), elements=numbers))
    return rows, labels, text


@settings(max_examples=15)
@given(given_arrays=features(), named=st.booleans())
def test_every_format_gives_the_same_bank(given_arrays, named, tmp_path_factory) -> None:
    rows, labels, text = given_arrays
    folder = tmp_path_factory.mktemp("files")
    (folder / "names.txt").write_text("\n".join(NAMES_FILES) + "\n\n")
    np.save(folder / "y.npy", labels)
    (folder / "y.csv").write_text("id,label\n" + "".join(f"{i},{NAMES_FILES[k]}\n" for i, k in enumerate(labels)))
    extra = {"text": text} if named else {}
    expected = FeatureBank.from_arrays(rows, labels, class_names=NAMES_FILES, **extra)
    assert expected.features.dtype == torch.float32
    for name, write in WRITERS.items():
        path, text_path = folder / name, folder / f"text_{name}"
        write(path, rows)
        write(text_path, text)
        found = read_features(path)
        assert found.dtype == rows.dtype
        assert np.array_equal(found, rows)
        texts = {"text_features": text_path} if named else {}
        for y in ("y.npy", "y.csv"):
            bank = import_features(path, labels=folder / y, classes=folder / "names.txt", **texts)
            assert bank.fingerprint() == expected.fingerprint(), (name, y)
            assert torch.equal(bank.features, expected.features)


@settings(max_examples=15)
@given(given_arrays=features())
def test_memory_gives_the_same_bank_as_files(given_arrays) -> None:
    rows, labels, text = given_arrays
    expected = FeatureBank.from_arrays(rows, labels, class_names=NAMES_FILES, text=text).fingerprint()
    columns = [f"f{i}" for i in range(rows.shape[1])]
    frames = (
        pd.DataFrame(rows, columns=columns).assign(label=labels),
        pd.DataFrame({"embedding": list(rows), "label": [NAMES_FILES[k] for k in labels]}),
        pa.table({"embedding": list(rows), "label": labels}),
        pa.table({**dict(zip(columns, rows.T, strict=True)), "label": labels}).to_batches()[0],
    )
    for frame in frames:
        assert FeatureBank.from_arrays(frame, class_names=NAMES_FILES, text=text).fingerprint() == expected
    arrays = (
        (torch.from_numpy(rows).requires_grad_(), torch.from_numpy(labels), torch.from_numpy(text)),
        (np.asfortranarray(rows), labels.tolist(), pa.array(list(text))),
        (rows.astype(rows.dtype.newbyteorder(">")), pd.Series(labels), pd.Series(list(text))),
        (
            pa.table({"e": list(rows)}).to_reader(),
            torch.from_numpy(labels),
            text.tolist() if text.dtype == "f8" else text,
        ),
        (pa.chunked_array([pa.array(list(rows))]), pa.array([NAMES_FILES[k] for k in labels]), pd.DataFrame(text)),
    )
    for x, y, t in arrays:
        assert FeatureBank.from_arrays(x, y, class_names=list(NAMES_FILES), text=t).fingerprint() == expected


def test_labels_and_names_in_text(tmp_path: Path) -> None:
    def written(name: str, text: str) -> Path:
        (tmp_path / name).write_text(text, encoding="utf-8")
        return tmp_path / name

    assert read_labels(written("a.txt", "3\n0\n12\n")).tolist() == [3, 0, 12]
    assert read_labels(written("a.csv", "label\n3\n0\n")).tolist() == [3, 0]
    assert read_labels(written("a.csv", "3\n0\n")).tolist() == [3, 0]
    assert read_labels(written("a.csv", "a,b\n1,x\n2,y\n"), "b").tolist() == ["x", "y"]
    assert read_labels(written("a.txt", "007\n1\n")).tolist() == ["007", "1"]
    assert read_class_names(written("b.txt", "\ufeffjack, o'lantern \nété\n")) == ("jack, o'lantern", "été")
    assert read_class_names(written("b.csv", 'name\n"a, b"\nc\n')) == ("a, b", "c")
    for name, text, words in (
        ("c.txt", "", "no lines"),
        ("c.txt", "a\n\nb\n", "line 2 is empty"),
        ("c.csv", "a,b\nx,y\n", "a, b"),
        ("c.csv", "x,y\n1,2\n", "x, y"),
        ("c.csv", "label\n", "below"),
        ("c.txt", "a\0", "NUL"),
    ):
        with pytest.raises(InputError, match=rf"{name}: .*{words}"):
            read_labels(written(name, text))
    with pytest.raises(InputError, match=r"c\.csv: .*a, b is meant\? .*call it class_names"):
        read_class_names(written("c.csv", "a,b\nx,y\n"))
    with pytest.raises(InputError, match=r"c\.txt: has no columns"):
        read_labels(written("c.txt", "a\n"), "b")
    with pytest.raises(InputError, match=r"c\.json: arrays are read from \.npy"):
        read_labels(written("c.json", "[]"))
    with pytest.raises(InputError, match=r"c\.json: class names are read from \.txt"):
        read_class_names(written("c.json", "[]"))
    (tmp_path / "c.txt").write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="UTF-8"):
        read_labels(tmp_path / "c.txt")
    with pytest.raises(InputError, match=r"none\.txt"):
        read_labels(tmp_path / "none.txt")


ZERO, LOST = X.copy(), X.copy()
ZERO[5], LOST[6, 1] = 0, np.nan


@pytest.mark.parametrize(
    ("given_arrays", "words"),
    [
        ({"text": T[:, :3]}, r"text has 3 rows of 3 numbers for 3 class names and features of 4 numbers"),
        ({"text": T[:2]}, "text has 2 rows of 4 numbers for 3 class names"),
        ({"text": np.zeros((4, 3), "f4")}, "transpose"),
        ({"text": T * np.array([[1], [np.nan], [1]], "f4")}, "'bee'"),
        ({"text": T * np.array([[1], [1], [0]], "f4")}, "'cat'"),
        ({"text": np.ones((3, 4), int)}, "text must be numbers with a fraction"),
        ({"text": T[None]}, r"\(1, 3, 4\)"),
        ({"class_names": NAMES_FILES[:2]}, "labels run from 0 to 2, but there are 2 class names"),
        ({"class_names": ["a", "b", "a"]}, "'a'"),
        ({"labels": Y[:5]}, r"8 features have labels of shape \(5,\)"),
        ({"labels": Y - 1}, "labels run from -1"),
        ({"labels": Y / 2}, r"one is 0\.5"),
        ({"labels": np.where(Y == 1, np.nan, Y)}, "one is nan"),
        ({"labels": np.eye(3)[Y]}, r"8 features have labels of shape \(8, 3\)"),
        ({"labels": np.where(Y == 1, "be", "ant")}, "'be'.*did you mean 'bee'"),
        ({"labels": None}, "without labels"),
        ({"labels": [0, None] * 4}, "labels .*types, NoneType and int"),
        ({"labels": [0, "a"] * 4}, "labels .*types, int and str"),
        ({"labels": np.array([0, "a"] * 4, dtype=object)}, "labels .*types, int and str"),
        ({"features": ZERO}, "zero in row 5"),
        ({"features": LOST}, "row 6"),
        ({"features": X.astype(int)}, "features must be numbers with a fraction"),
        ({"features": X[0]}, r"\(N, D\)"),
        ({"features": X.astype(complex)}, "complex"),
        ({"features": np.array([[1], [1, 2]], dtype=object)}, "numbers"),
        ({"features": X[:0], "labels": Y[:0]}, "features"),
        ({"features": [[1.0], [1.0, 2.0]]}, "features: the rows have unequal lengths"),
        ({"features": X.astype("f8") * 1e300}, "too large or too small to be squared: row 0"),
        ({"labels": np.array(["2020-01-01"] * 8, dtype="M8[D]")}, "labels must be integers or strings, not datetime"),
        ({"base_mean": ["a"] * 4}, "base_mean must be numbers"),
        ({"base_mean": X[0, :3]}, "base_mean"),
        ({"base_mean": [[1.0], [1.0, 2.0]]}, "base_mean: the rows have unequal lengths"),
        ({"logit_scale": "high"}, "logit_scale must be numbers"),
        ({"logit_scale": 0.0}, "logit_scale"),
        ({"logit_scale": np.inf}, "logit_scale"),
        ({"class_names": None, "labels": [NAMES_FILES[k] for k in Y]}, "labels must be class names, or their numbers"),
        ({"class_names": None, "labels": Y + 4}, "labels run from 4 to 6, but there are 3 class names"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(given_arrays: dict[str, Any], words: str) -> None:
    arrays = {"features": X, "labels": Y, "class_names": NAMES_FILES, "text": T, **given_arrays}
    with pytest.raises(InputError, match=words):
        FeatureBank.from_arrays(arrays.pop("features"), arrays.pop("labels"), **arrays)


def test_errors_name_all_files(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "y.npy", Y[:5])
    with pytest.raises(InputError, match=r"x\.npy, .*y\.npy: 8 features have labels of shape"):
        import_features(tmp_path / "x.npy", labels=tmp_path / "y.npy")
    with pytest.raises(InputError, match=r"x\.npy: .*labels=FILE"):
        import_features(tmp_path / "x.npy")
    with pytest.raises(InputError, match=r"^[^:]*z\.npy: no such file"):
        import_features(tmp_path / "x.npy", labels=tmp_path / "z.npy")


@pytest.mark.parametrize("name", WRITERS)
def test_a_file_that_is_cut_or_changed_is_refused_or_read(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    WRITERS[name](path, X)
    whole = path.read_bytes()
    for size in (0, 1, 5, 30, len(whole) // 2, len(whole) - 4):
        path.write_bytes(whole[:size])
        with pytest.raises(InputError, match=path.name) as caught:
            read_features(path)
        assert len(str(caught.value).replace(str(path), "")) < 250
        assert "\n" not in str(caught.value)
    for place in range(0, len(whole), max(1, len(whole) // 60)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 85]) + whole[place + 1 :])
        with contextlib.suppress(InputError):
            read_features(path)


def parquet_of(path: Path, columns: dict[str, Any]) -> Path:
    parquet.write_table(pa.table(columns), path)
    return path


LISTS = [[1.0, 2.0], [3.0, 4.0], [5.0, 7.0]]


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        (
            {"image": LISTS, "text": LISTS, "label": [0, 1, 2]},
            "image, text, .*which are the features.*column=NAME",
        ),
        ({"e": LISTS, "label": [0, 1, 2], "labels": [2, 1, 0]}, "labels, label could be the labels.*label_column=NAME"),
        ({"path": ["a", "b", "c"], "label": [0, 1, 2]}, "path, label; which are the features.*column=NAME"),
        ({"a": [0.5, 1, 2], "id": [7, 8, 9], "label": [0, 1, 2]}, "a, id, label; which .*column=PATTERN"),
        ({"e": [[1.0], [1.0, 2.0], [3.0]], "label": [0, 1, 2]}, "unequal length: 1 numbers in row 0, but 2 in row 1"),
        ({"e": [[1.0], None, [3.0]], "label": [0, 1, 2]}, "'e' has a missing value in row 1"),
        ({"e": [[1.0], [2.0], [None]], "label": [0, 1, 2]}, "NaN or infinite values.*row 2"),
        ({"e": LISTS, "label": [0, None, 2]}, "'label' has a missing value in row 1"),
        ({"a": [0.5, None, 2.0], "label": [0, 1, 2]}, "NaN or infinite values.*row 1"),
        ({"e": LISTS}, "contains e, but no labels.*label_column=NAME"),
        ({"e": [[], [], []], "label": [0, 1, 2]}, "features"),
        ({"e": [[[1.0]], [[1.0]], [[1.0]]], "label": [0, 1, 2]}, "which are the features"),
    ],
)
def test_columns_that_cannot_be_used_are_named(columns: dict[str, Any], words: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=rf"a\.parquet: .*{words}"):
        import_features(parquet_of(tmp_path / "a.parquet", columns))


def test_columns_are_chosen_by_name_or_pattern(tmp_path: Path) -> None:
    columns = {"image": LISTS, "text": LISTS[::-1], "kind": ["b", "a", "b"], "emb_0": [0.5, 1, 2], "emb_1": [1.5, 2, 3]}
    path = parquet_of(tmp_path / "a.parquet", columns)
    bank = import_features(path, column="text", label_column="kind")
    assert bank.features.tolist() == LISTS[::-1]
    assert (bank.class_names, bank.labels.tolist()) == (("a", "b"), [1, 0, 1])
    bank = import_features(path, column="emb_*", label_column="kind")
    assert bank.features.tolist() == [[0.5, 1.5], [1, 2], [2, 3]]
    with pytest.raises(InputError, match="did you mean 'kind'"):
        import_features(path, column="text", label_column="kinds")
    with pytest.raises(InputError, match="'embed'"):
        read_features(path, "embed")
    np.save(tmp_path / "b.npy", X)
    with pytest.raises(InputError, match=r"single array.*column=embed"):
        read_features(tmp_path / "b.npy", "embed")
    np.savez(tmp_path / "a.npz", image_embeds=X, text_embeds=T, labels=Y)
    with pytest.raises(InputError, match=r"image_embeds, text_embeds, .*which are the features"):
        import_features(tmp_path / "a.npz")
    own = {"column": "image_embeds", "text_features": tmp_path / "a.npz", "text_column": "text_embeds"}
    assert torch.equal(
        import_features(tmp_path / "a.npz", **own).features, FeatureBank.from_arrays(X, Y, text=T).features
    )
    with pytest.raises(InputError, match="several arrays"):
        read_features(tmp_path / "a.npz", "*_embeds")


def test_only_features_of_unknown_name_are_taken(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", mine=X, labels=Y, text=T)
    assert import_features(tmp_path / "a.npz").features.shape == X.shape
    np.savez(tmp_path / "a.npz", mine=X, y=Y)
    with pytest.raises(InputError, match=r"contains mine, y, but no labels.*label_column=NAME"):
        import_features(tmp_path / "a.npz")
    assert import_features(tmp_path / "a.npz", label_column="y").labels.tolist() == Y.tolist()


def test_files_of_this_project_are_not_imported(tmp_path: Path) -> None:
    bank = FeatureBank.from_arrays(X, Y)
    bank.save(tmp_path / "a.safetensors")
    with pytest.raises(InputError, match="features="):
        import_features(tmp_path / "a.safetensors")
    assert FeatureBank.load(tmp_path / "a.safetensors").fingerprint() == bank.fingerprint()
