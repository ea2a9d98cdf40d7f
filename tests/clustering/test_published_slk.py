"""SLK's presets against the public code's form in plain loops, label by label."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.preprocessing import normalize

from clustering import SLK, PublishedSLK
from tests.oracles import published_slk_loops

pytestmark = pytest.mark.filterwarnings("ignore:assignments are nearly uniform")
PRESETS = {"slk2018-ms": "mean_shift", "slk2018-bo": "byproduct", "journal-means": "mean"}


def agree(preset: str, X: Any, seeds: Any, weight: float) -> PublishedSLK:
    model = SLK.preset(preset, n_clusters=len(seeds), weight=weight, init=seeds).fit(X)
    graph = model.graph_
    arcs = graph.weights.double().numpy(), graph.columns.numpy(), graph.pointers.numpy()
    W = sparse.csr_matrix(arcs, shape=(len(X), len(X))).toarray()
    labels, prototypes = published_slk_loops.slk(PRESETS[preset], X, W, seeds, 2 * weight, model.bandwidth_**2)
    np.testing.assert_array_equal(model.labels_, labels)
    np.testing.assert_allclose(model.cluster_centers_, prototypes, atol=1e-9)
    return model


@pytest.mark.parametrize("preset", PRESETS)
@settings(max_examples=8)
@given(seed=st.integers(0, 2**16), weight=st.just(0.0) | st.floats(0.01, 2.0), clusters=st.integers(1, 6))
def test_labels_and_prototypes_are_those_of_the_public_code(
    preset: str, seed: int, weight: float, clusters: int
) -> None:
    rng = np.random.default_rng(seed)
    X = normalize(rng.normal(size=(60, 4)) + 2 * np.eye(4)[rng.integers(0, 4, 60)])
    agree(preset, X, X[rng.choice(60, clusters, replace=False)], weight)


@pytest.mark.parametrize(("preset", "updates"), [("slk2018-ms", 1), ("slk2018-bo", 1), ("journal-means", 3)])
def test_an_update_that_empties_a_cluster_is_taken_back_and_is_the_last(preset: str, updates: int) -> None:
    rng = np.random.default_rng(8)
    X = normalize(rng.normal(size=(60, 4)) + 2 * np.eye(4)[rng.integers(0, 4, 60)])
    model = agree(preset, X, X[:6], 1.0)
    assert not model.converged_
    assert model.n_iter_ == updates
    assert len(np.unique(model.labels_)) == 6
