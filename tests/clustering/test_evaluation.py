"""Metrics by their definitions, profiles of clusters, trials, and labels and pairs that are known of some points."""

import itertools
import math
import tracemalloc
from itertools import combinations, permutations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import sparse

from clustering import metrics
from clustering.datasets.dataset import Dataset
from clustering.evaluation.known_labels import (
    KnownLinks,
    drawn_coarse_labels,
    drawn_links,
    labels_of_some,
    read_labels,
)
from clustering.evaluation.near_copies import near_copies
from clustering.evaluation.profiles import principal_plane, profiles, relabelled_like
from clustering.evaluation.protocol import Selection, chooses, schedule
from clustering.foundation.errors import InputError

LABELS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4)), min_size=1, max_size=12)


def best_pairing(truth: list[int], labels: list[int]) -> float:
    """Accuracy under every one-to-one naming of clusters by classes, clusters beyond the classes by none."""
    clusters, classes = sorted(set(labels)), sorted(set(truth))
    names = [*classes, *range(100, 100 + max(0, len(clusters) - len(classes)))]
    return max(
        sum(dict(zip(clusters, chosen, strict=True))[cluster] == y for y, cluster in zip(truth, labels, strict=True))
        for chosen in itertools.permutations(names, len(clusters))
    ) / len(truth)


def entropies(truth: list[int], labels: list[int]) -> tuple[float, float, float]:
    """H(Y), H(L) and I(Y; L) by their definitions."""

    def entropy(values: list[Any]) -> float:
        return -sum(values.count(v) / len(values) * math.log(values.count(v) / len(values)) for v in set(values))

    both = entropy(list(zip(truth, labels, strict=True)))
    return entropy(truth), entropy(labels), entropy(truth) + entropy(labels) - both


@settings(deadline=None, max_examples=30)
@given(pairs=LABELS)
def test_against_definitions(pairs: list[tuple[int, int]]) -> None:
    truth, labels = [y for y, _ in pairs], [label for _, label in pairs]
    assert metrics.accuracy(truth, labels) == pytest.approx(best_pairing(truth, labels))
    one, other, mutual = entropies(truth, labels)
    if one > 0 and other > 0:
        assert metrics.nmi(truth, labels) == pytest.approx(mutual / math.sqrt(one * other), abs=1e-9)
        arithmetic = metrics.nmi(truth, labels, average="arithmetic")
        assert arithmetic == pytest.approx(2 * mutual / (one + other), abs=1e-9)
    else:
        assert metrics.nmi(truth, labels) == metrics.nmi(truth, labels, average="arithmetic") == (one == other)


def graph(seed: int, points: int = 9) -> NDArray[np.float64]:
    W = np.random.default_rng(seed).random((points, points)) * (
        np.random.default_rng(seed + 1).random((points,) * 2) < 0.5
    )
    W = W + W.T
    W[0] = W[:, 0] = 0  # a point without arcs
    return W


@settings(deadline=None, max_examples=20)
@given(seed=st.integers(0, 1000), labels=st.lists(st.integers(0, 3), min_size=9, max_size=9))
def test_graph_objectives_by_their_definitions(seed: int, labels: list[int]) -> None:
    W = graph(seed) + np.diag(np.random.default_rng(seed).random(9)) * (seed % 2)
    found = metrics.graph_objectives(labels, sparse.csr_array(W))
    expected = dict.fromkeys(found._fields, 0.0)
    d, other_way = W.sum(axis=1), 0.0
    for k in set(labels):
        S = (np.array(labels) == k).astype(float)
        inside, cut = S @ W @ S, S @ W @ (1 - S)
        expected["average_association"] -= inside / S.sum()
        if d @ S:
            expected["normalised_cut"] += cut / (d @ S)
            other_way += 1 - inside / (d @ S)
    assert found._asdict() == pytest.approx(expected)
    assert found.normalised_cut == pytest.approx(other_way)  # K - sum of assoc(k, k) / assoc(k, all)
    assert found == pytest.approx(metrics.graph_objectives(labels, W))


def test_labels_that_cannot_be() -> None:
    with pytest.raises(InputError, match=r"3 .*2"):
        metrics.accuracy([0, 1, 2], [0, 1])
    with pytest.raises(InputError, match="1-d array"):
        metrics.nmi([[0], [1]], [0, 1])
    with pytest.raises(InputError, match="1-d array"):
        metrics.ari([], [])
    with pytest.raises(InputError, match=r"W .*\(9, 9\)"):
        metrics.graph_objectives([0, 1], graph(0))


def test_silhouette_by_its_definition_and_of_a_sample() -> None:
    X = np.random.default_rng(0).normal(size=(30, 3))
    labels = np.arange(30) % 3
    X += 5 * np.eye(3)[labels]
    far = np.sqrt(((X[:, None] - X) ** 2).sum(axis=2))
    found = []
    for p in range(30):
        own = far[p][(labels == labels[p]) & (np.arange(30) != p)].mean()
        other = min(far[p][labels == k].mean() for k in range(3) if k != labels[p])
        found.append((other - own) / max(own, other))
    assert metrics.silhouette(X, labels) == pytest.approx(np.mean(found))
    assert metrics.silhouette(pd.DataFrame(X), labels) == pytest.approx(np.mean(found))
    assert metrics.silhouette(sparse.csr_array(X), labels) == pytest.approx(np.mean(found))
    assert metrics.silhouette(X, labels, sample=20, seed=1) == metrics.silhouette(X, labels, sample=20, seed=1)
    assert metrics.silhouette(X, labels, sample=20) == pytest.approx(np.mean(found), abs=0.1)
    assert math.isnan(metrics.silhouette(X, np.zeros(30)))
    assert math.isnan(metrics.silhouette(X, np.arange(30)))
    with pytest.raises(InputError, match=r"30 rows.*29"):
        metrics.silhouette(X, labels[1:])


def test_many_classes_take_little_memory() -> None:
    labels = np.arange(20_000)
    tracemalloc.start()
    assert metrics.accuracy(labels, labels[::-1]) == 1
    assert metrics.accuracy(labels, labels // 2) == 0.5
    assert tracemalloc.get_traced_memory()[1] < 100 * 2**20
    tracemalloc.stop()


@settings(max_examples=30)
@given(st.integers(0, 2**32 - 1), st.integers(2, 30), st.integers(1, 4), st.integers(1, 4))
def test_profiles_against_loops(seed, points, columns, clusters):
    generator = np.random.default_rng(seed)
    values = generator.normal(size=(points, columns)) * [10.0**j for j in range(columns)] + 5
    labels = generator.integers(0, clusters, points)
    found = profiles(values, labels)
    assert sum(profile.rows for profile in found) == points
    assert [profile.rows for profile in found] == sorted((profile.rows for profile in found), reverse=True)
    for profile in found:
        members = [i for i in range(points) if labels[i] == profile.cluster]
        others = [i for i in range(points) if labels[i] != profile.cluster]
        assert profile.rows == len(members)
        for column, mean, difference in zip(values.T, profile.means, profile.differences, strict=True):
            inside = sum(column[i] for i in members) / len(members)
            outside = sum(column[i] for i in others) / len(others) if others else inside
            assert mean == pytest.approx(inside)
            spread = (sum((v - sum(column) / points) ** 2 for v in column) / points) ** 0.5
            assert difference == pytest.approx((inside - outside) / spread, abs=1e-9)
        assert set(profile.typical) <= set(members)
        unit, centre = values.std(axis=0), values[members].mean(axis=0)
        distances = {i: sum(((values[i] - centre) / unit) ** 2) for i in members}
        assert [distances[i] for i in profile.typical] == pytest.approx(sorted(distances.values())[:3])


@settings(max_examples=30)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=30))
def test_clusters_called_alike_are_the_same_clusters_and_share_as_many_rows_as_can_be(pairs):
    labels, other = np.array(pairs).T
    called = relabelled_like(labels, other, 4)
    assert ((called[:, None] == called) == (other[:, None] == other)).all()
    best = max((np.array(names)[other] == labels).sum() for names in permutations(range(4)))
    assert (called == labels).sum() == best


@settings(max_examples=30)
@given(st.integers(0, 2**32 - 1), st.integers(1, 5))
def test_the_plane_keeps_what_it_says(seed, columns):
    values = np.random.default_rng(seed).normal(size=(20, columns)) * np.arange(1, columns + 1)
    plane, kept = principal_plane(values)
    assert plane.shape == (20, 2)
    assert kept == pytest.approx(np.square(plane).sum() / (20 * columns))  # every column counts 20
    assert kept <= 1 + 1e-12
    if columns <= 2:
        assert kept == pytest.approx(1)
    shifted, _ = principal_plane(values * 3 - 7)
    np.testing.assert_allclose(np.abs(shifted), np.abs(plane), atol=1e-8)  # either way up


SETTINGS = st.lists(st.sampled_from([{}, {"a": 1}, {"a": 2}, {"a": 3}]), min_size=1, max_size=4).map(tuple)


@settings(max_examples=30)
@given(st.integers(1, 12), st.integers(4, 40), SETTINGS, st.booleans())
def test_every_trial_once_and_all_that_were_asked_for(starts, trials, settings, seeded):
    found = schedule(starts, Selection(trials, 0.1, settings), seeded=seeded)
    places = [(trial.setting, trial.start) for trial in found]
    assert len(set(places)) == len(places)
    assert places == sorted(places), "those of one setting stand together"
    assert sum(trial.given for trial in found) == (starts if seeded else 1)
    assert {trial.setting for trial in found if trial.given} == {0}
    tried = [trial for trial in found if trial.tried]
    if seeded:
        assert sorted(trial.start for trial in tried) == list(range(trials)), "each trial has a start of its own"
    wanted = {i + 1 if setting else 0 for i, setting in enumerate(settings)}
    assert {trial.setting for trial in tried} == wanted, "no setting is left out"


@settings(max_examples=30)
@given(st.integers(2, 300), st.floats(0, 1), st.integers(0, 5))
def test_some_points_choose_and_some_are_left(points, share, seed):
    found = chooses(points, share, seed)
    assert found.shape == (points,)
    assert 1 <= found.sum() <= points - 1
    assert abs(found.sum() - share * points) <= 1
    assert (found == chooses(points, share, seed)).all()


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
        "id,label\na/0.png,cat\na/29.png,owl\n",
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
    of_page = read_labels(write(tmp_path, "id,label\n2,10\n3,2\n"), data(classes=False))  # counts rows from 0
    assert (of_page.labels == found.labels).all()
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


def pictures(values: np.ndarray) -> Dataset:
    rows = values.reshape(len(values), -1).astype(np.float32)
    return Dataset(rows, picture=values.shape[-2:], channels=values.shape[1])


def test_pictures_of_one_colour_are_copies_if_it_is_the_same() -> None:
    colours = np.array([[1, 0, 0], [0, 0, 1], [1, 0, 0.002], [1, 1, 1], [0, 0, 0]])
    found = near_copies(pictures(colours[:, :, None, None] * np.ones((8, 8))))
    assert found.tolist() == [0, 1, 0, 3, 4]
    assert near_copies(pictures(np.ones((3, 1, 8, 8)))).tolist() == [0, 0, 0]


def test_copies_of_one_scene_are_not_compared_pair_by_pair(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clustering.evaluation.near_copies.NEAREST", 5)
    scene, others = np.random.default_rng(0).random((2, 100, 1, 16, 16))
    found = near_copies(pictures(np.concatenate([others[:3], others[:1] + scene / 30])))
    assert found.tolist() == [0, 1, 2] + 100 * [0]
