"""Labels and pairs that are known of some points: drawn, and read from files in the forms in which people have them."""

from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from clustering.datasets.dataset import Dataset
from clustering.evaluation.known_labels import (
    KnownLinks,
    drawn_coarse_labels,
    drawn_links,
    labels_of_some,
    read_labels,
)
from clustering.foundation.errors import InputError

NAMES = ("cat", "dog", "owl")


def data(points: int = 30, *, classes: bool = True, names: bool = False) -> Dataset:
    labels = np.arange(points, dtype=np.int64) % 3
    return Dataset(
        np.zeros((points, 2), dtype=np.float32),
        labels if classes else None,
        NAMES if classes else (),
        names=tuple(f"a/{i}.png" for i in range(points)) if names else (),
    )


@given(st.lists(st.integers(0, 4), min_size=2, max_size=40).map(np.array), st.integers(0, 5), st.booleans(), st.data())
def test_so_many_are_drawn_and_those_of_fewer_are_among_them(
    classes: NDArray[np.int64], seed: int, evenly: bool, given: st.DataObject
) -> None:
    count = given.draw(st.integers(0, len(classes) - 1))
    fewer, more = (labels_of_some(classes, some, seed, evenly=evenly) for some in (count, count + 1))
    drawn = fewer >= 0
    assert drawn.sum() == count
    assert (fewer[drawn] == classes[drawn]).all()
    assert (more[drawn] == classes[drawn]).all()
    seen = len(np.unique(classes))
    assert len(np.unique(fewer[drawn])) == min(count, seen)
    if evenly:  # a class has fewer than another, but for one, only where it has no more
        taken = np.bincount(fewer[drawn], minlength=5)
        assert (taken >= np.minimum(taken.max() - 1, np.bincount(classes, minlength=5))).all()


def test_coarse_labels_are_of_a_half_and_of_what_is_known() -> None:
    of = data(300)
    known = np.arange(300) < 9
    found = drawn_coarse_labels(of, ["owl", "dog"], known, 0)
    told = found >= 0
    assert of.labels is not None
    assert (found[told] == (of.labels[told] > 0)).all()
    assert found[known].tolist() == [0, 1, 1] * 3
    assert 150 <= told.sum() <= 159
    assert (found != drawn_coarse_labels(of, ["owl", "dog"], known, 1)).any()


def write(folder: Path, text: str) -> Path:
    path = folder / "labels.csv"
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    "text",
    [
        "row,label\n1,cat\n30,owl\n",
        "label,row\ncat,1\nowl,30\n",
        "Row,Class\n1.0,cat\n30,owl\n2,\n1,cat\n",
        "file,label\na/0.png,cat\na/29.png,owl\n",
        "Row;Class\n1,0;cat\n30,00;owl\n",
        "file,label\n./a\\0.png,cat\na\\29.png,owl\n",
        "label\ncat\n" + 28 * '""\n' + "owl\n",
        "label\ncat\n" + 28 * "\n" + "owl\n",
        "\n\nlabel\r\ncat\r\n" + 28 * "\r\n" + "owl\r\n\r\n\r\n",
        "\nrow,label\n\n1,cat\n\n30,owl\n\n",
        "file,label\na/0.png,cat\n\na/29.png,owl\n",
    ],
)
def test_forms_of_the_file(tmp_path: Path, text: str) -> None:
    found = read_labels(write(tmp_path, text), data(names=True))
    assert np.flatnonzero(found.known).tolist() == [0, 29]
    assert found.labels[[0, 29]].tolist() == [0, 2]
    assert found.class_names == NAMES


def test_without_classes_the_labels_are_the_classes_and_numbers_are_names(tmp_path: Path) -> None:
    found = read_labels(write(tmp_path, "row,label\n3,10\n4,2\n9,\n"), data(classes=False))
    assert found.class_names == ("10", "2")
    assert found.labels[[2, 3]].tolist() == [0, 1]
    assert found.known.sum() == 2
    path = tmp_path / "labels.parquet"
    pd.DataFrame({"row": [3, 4, 9], "label": [10, 2, None]}).to_parquet(path)
    assert (read_labels(path, data(classes=False)).labels == found.labels).all()
    pd.DataFrame({"row": [3, 31], "label": [10, 2]}).to_parquet(path)
    with pytest.raises(InputError, match=r"row 2: .*'31'"):
        read_labels(path, data(classes=False))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("row,label\n", "no rows|no label"),
        ("row,label\n1,\n", "no label"),
        ("row,label\n31,cat\n", r"line 2: .*'31' .*1\.\.30"),
        ("\nrow,label\n\n1,\n0,cat\n", r"line 5: row '0'"),
        ("row,label\n,cat\n", "row ''"),
        ("label\ncat\n" + 40 * "\n" + "owl\n", "42 lines.*30 points"),
        ("row,label\n0,cat\n", r"row '0' .*1\.\.30"),
        ("row,label\nx,cat\n", "row 'x'"),
        ("row,label\n1,cat\n1,dog\n", "line 2 and line 3 .*'cat' and 'dog'"),
        ("row,label\n1,cot\n", "line 2: .*'cot'.*'cat'"),
        ("row,kind\n1,cat\n", "row, kind; .*label"),
        ("number1,label\n1,cat\n", "number1, label; required .*row,label"),
        ("file,label\na/0.pn,cat\n", r"line 2: .*'a/0\.pn'"),
        ("label\ncat\ndog\n", "2 lines.*30 points"),
        ("label\n" + 30 * "cat\n", "every point"),
    ],
)
def test_files_that_cannot_be(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_labels(write(tmp_path, text), data(names=True))


def as_set(links: KnownLinks) -> set[tuple[int, int]]:
    return {(int(i), int(j)) for part in links for i, j in part}


@given(labels=st.lists(st.integers(0, 2), min_size=1, max_size=12), seed=st.integers(0, 1000), share=st.floats(0, 1))
def test_they_are_true_and_each_pair_comes_once(labels: list[int], seed: int, share: float) -> None:
    classes, every = np.array(labels), len(labels) * (len(labels) - 1) // 2
    count = round(share * every)
    found = drawn_links(classes, count, seed)
    assert len(found.must_link) + len(found.cannot_link) == count
    assert len(as_set(found)) == count
    assert all(i < j for i, j in as_set(found))
    assert all(classes[i] == classes[j] for i, j in found.must_link)
    assert all(classes[i] != classes[j] for i, j in found.cannot_link)
    assert as_set(found) <= as_set(drawn_links(classes, every, seed))
    assert as_set(drawn_links(classes, every, seed)) == set(combinations(range(len(labels)), 2))


def test_more_than_there_are() -> None:
    with pytest.raises(InputError, match=r"links=4: .*3 pairs"):
        drawn_links(np.zeros(3), 4, 0)
