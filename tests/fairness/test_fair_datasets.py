"""Data sets with sensitive features: the exact values of the synthetic sets, real files, and what is said without."""

import gzip
import os
from pathlib import Path

import numpy as np
import pytest

from clustering.foundation.errors import InputError
from fairness.datasets import DATASETS
from fairness.datasets.papers import Census
from fairness.metrics import balance, fairness_error
from fairness.objectives import kmeans_objective, kmedian_objective

REAL = Path(os.environ.get("TRANSDUCE_DATA", "")) / "fair"
needs_data = pytest.mark.skipif(not (REAL / "synthetic.npz").is_file(), reason="TRANSDUCE_DATA is not set")
ROWS = np.repeat([0, 0, 1, 1], 100)
COLUMNS = np.tile(np.repeat([0, 1], 100), 2)
ONE = (np.arange(400) < 100).astype(int)


@pytest.mark.parametrize(
    ("name", "preprocess", "labels", "means", "medoids", "error", "least", "mean"),
    [
        ("synthetic", "thesis", ROWS, 7.949, 52.409, 44.665, 0, 0),
        ("synthetic", "thesis", COLUMNS, 43.317, 130.470, 0, 1, 1),
        ("synthetic", "thesis", ONE, 45.343, 97.762, 22.392, 0, 0.25),
        ("synthetic", "aaai", ROWS, 195.864, 286.253, 44.665, 0, 0),
        ("synthetic", "aaai", COLUMNS, 207.804, 294.540, 0, 1, 1),
        ("synthetic", None, ROWS, 124.779, 222.37, 44.665, 0, 0),
        ("synthetic", None, COLUMNS, 1609.04, 804.54, 0, 1, 1),
        ("synthetic_unequal", "thesis", None, 11.741, 62.966, 44.927, 0, 0),
        ("synthetic_unequal", "thesis", "x", 23.823, 70.556, 0, 1 / 3, 1 / 3),
        ("synthetic_unequal", "thesis", "one", 32.528, 84.868, 11.000, 0, 1 / 3),
        ("synthetic_unequal", "aaai", None, 246.142, 319.470, 44.927, 0, 0),
        ("synthetic_unequal", "aaai", "x", 159.754, 174.818, 0, 1 / 3, 1 / 3),
    ],
)
def test_exact_values_of_partitions_by_blobs(name, preprocess, labels, means, medoids, error, least, mean):
    found = DATASETS.load(name)(preprocess=preprocess).read()
    groups = found.sensitive["row"]
    if name == "synthetic_unequal":
        blobs = np.repeat([0, 1, 2, 3], [150, 150, 50, 50])
        labels = {None: blobs // 2, "x": blobs % 2, "one": (blobs == 0).astype(int)}[labels]
    assert kmeans_objective(found.values, labels) == pytest.approx(means, abs=max(1e-3, 6e-6 * means))
    assert kmedian_objective(found.values, labels) == pytest.approx(medoids, abs=max(1e-3, 3e-5 * medoids))
    assert fairness_error(labels, groups) == pytest.approx(error, abs=1e-3)
    assert balance(labels, groups) == pytest.approx(least, abs=1e-3)
    assert balance(labels, groups, reduce="mean") == pytest.approx(mean, abs=1e-3)


@needs_data
def test_the_synthetic_sets_are_those_of_the_public_code():
    with np.load(REAL / "synthetic.npz") as stored:
        for name, end in (("synthetic", ""), ("synthetic_unequal", "_unequal")):
            found = DATASETS.load(name)(preprocess=None).read()
            np.testing.assert_allclose(found.values, stored[f"x{end}"], atol=1e-12)
            assert len(set(zip(found.sensitive["row"], stored[f"group{end}"], strict=True))) == 2


@needs_data
@pytest.mark.slow
def test_the_real_ones():
    adult = DATASETS.load("adult")(root=str(REAL)).read()
    assert adult.values.shape == (32_561, 5)
    assert np.unique(adult.sensitive["sex"], return_counts=True)[1].tolist() == [10_771, 21_790]
    assert np.linalg.norm(adult.values, axis=1) == pytest.approx(1)
    thesis = DATASETS.load("adult")(root=str(REAL), features="thesis", preprocess=None, sensitive="race").read()
    assert thesis.values.shape == (32_561, 4)
    assert thesis.values[0].tolist() == [39, 77516, 13, 40]
    assert len(set(thesis.sensitive["race"])) == 5
    bank = DATASETS.load("bank")(root=str(REAL), preprocess=None).read()
    assert bank.values.shape == (41_108, 6)
    assert dict(zip(*np.unique(bank.sensitive["marital"], return_counts=True), strict=True)) == {
        "divorced": 4612,
        "married": 24_928,
        "single": 11_568,
    }
    assert bank.values[0].tolist() == [56, 261, 4.857, 5191, 93.994, 1]


@needs_data
def test_adult_with_a_line_of_names(tmp_path):
    lines = gzip.decompress((REAL / "adult.data.csv.gz").read_bytes()).decode()
    (tmp_path / "adult.csv").write_text(
        "age,workclass,fnlwgt,education,education.num,marital.status,occupation,relationship,race,sex,capital.gain,"
        "capital.loss,hours.per.week,native.country,income\n" + lines
    )
    first, second = (DATASETS.load("adult")(root=str(root)) for root in (REAL, tmp_path))
    np.testing.assert_array_equal(first.read().values, second.read().values)
    assert first.source() != second.source()


def test_the_census_is_read_by_its_columns(tmp_path, monkeypatch):
    drawn = np.random.default_rng(0).integers(0, 9, (50, Census.width))
    drawn[:, Census.sex] %= 2
    np.savetxt(tmp_path / "USCensus1990raw.data.txt", drawn, fmt="%d", delimiter="\t")
    built = DATASETS.load("census")(root=str(tmp_path), preprocess=None)
    with pytest.raises(InputError, match=r"50 rows, .*2,458,285"):
        built.read()
    monkeypatch.setattr(Census, "rows", 50)
    monkeypatch.setattr(Census, "at_once", 17)
    found = built.read()
    np.testing.assert_array_equal(found.values, drawn[:, list(Census.columns)])
    np.testing.assert_array_equal(found.sensitive["sex"], drawn[:, 112])
    assert found.values.shape == (50, 25)
    np.savetxt(tmp_path / "USCensus1990raw.data.txt", drawn[:, :60], fmt="%d", delimiter="\t")
    with pytest.raises(InputError, match=r"60 columns, .*125"):
        built.read()
