"""Sparse rows are the dense ones: products, prototypes, neighbours, and whole fits."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from clustering import SLK
from clustering.foundation.errors import InputError
from clustering.graphs.neighbours import neighbours
from clustering.graphs.row_search import nearest_rows, nearest_to
from clustering.graphs.sparse_rows import SparseRows, SparseTable, rows_of
from clustering.optimiser.centres import Rows, mean_shift


def draw(seed: int, points: int = 30, columns: int = 12, density: float = 0.3) -> sparse.csr_array:
    """Rows of three groups that use words of their own, some of them empty."""
    generator = np.random.default_rng(seed)
    present = generator.random((points, columns)) < density / 2
    present |= (generator.random((points, columns)) < density) & (
        np.arange(points)[:, None] % 3 == np.arange(columns) % 3
    )
    present[:: max(1, points // 2)] = False
    return sparse.csr_array(present * generator.random((points, columns)))


@settings(deadline=None, max_examples=20)
@given(
    seed=st.integers(0, 10_000),
    points=st.integers(1, 20),
    columns=st.integers(1, 9),
    density=st.sampled_from([0, 0.4, 1]),
)
def test_rows_against_dense_ones(seed: int, points: int, columns: int, density: float) -> None:
    matrix = draw(seed, points, columns, density)
    rows = rows_of(SparseTable.of_scipy(matrix))
    dense = Rows(torch.from_numpy(matrix.toarray()))
    assert isinstance(rows, SparseRows)
    assert rows.values.shape == dense.values.shape
    generator = torch.Generator().manual_seed(seed)
    centres = torch.randn(2, 3, columns, generator=generator, dtype=torch.float64)
    weights = torch.rand(2, 3, points, generator=generator, dtype=torch.float64)
    some = torch.randint(points, (2, 4), generator=generator)
    for name, arguments in {
        "at": (some,),
        "squared_distances": (centres,),
        "means": (weights,),
        "places": (dense.at(some[0]),),
    }.items():
        torch.testing.assert_close(getattr(rows, name)(*arguments), getattr(dense, name)(*arguments))
    torch.testing.assert_close(rows.squared_norms, dense.squared_norms)
    torch.testing.assert_close(
        mean_shift(rows, centres, weights, 0.5, max_iterations=5),
        mean_shift(dense, centres, weights, 0.5, max_iterations=5),
    )
    for block, part in rows.blocks():
        assert torch.equal(part, dense.values[block])
    assert (rows.values.scipy() != matrix).nnz == 0


def test_neighbours_are_those_of_the_dense_rows() -> None:
    matrix = draw(0, 200, 40)
    table, dense = SparseTable.of_scipy(matrix), torch.from_numpy(matrix.toarray())
    found, expected = nearest_rows(table, 4, "sparse"), nearest_rows(dense, 4, "blocks")
    np.testing.assert_allclose(found.squared_distances, expected.squared_distances, atol=1e-12)
    apart = np.arange(200) % 100 > 0  # empty rows are equally far from many others
    assert (found.indices[apart] == expected.indices[apart]).mean() > 0.99
    new = draw(1, 30, 40)
    for queries in (SparseTable.of_scipy(new), torch.from_numpy(new.toarray())):
        near = nearest_to(table, queries, 3)
        far = torch.cdist(torch.from_numpy(new.toarray()), dense)
        torch.testing.assert_close(far.gather(1, near), far.topk(3, largest=False).values)


def test_a_graph_of_sparse_rows_is_kept(tmp_path: Any) -> None:
    matrix = draw(0, 50, 20)
    first, again = (neighbours(matrix, 3, cache=tmp_path) for _ in range(2))
    assert first.seconds == again.seconds
    assert neighbours(matrix.astype(np.float32) * 2, 3, cache=tmp_path).seconds != first.seconds
    assert first.method == "sparse"
    assert first.is_of(SparseTable.of_scipy(matrix))
    with pytest.raises(InputError, match=r"hnsw' .*dense"):
        neighbours(matrix, 3, method="hnsw")
    broken = matrix.copy()
    broken.data[3] = np.inf
    with pytest.raises(InputError, match="NaN"):
        neighbours(broken, 3)


@pytest.mark.parametrize("rule", ["mean", "mean_shift", "byproduct"])
@pytest.mark.parametrize("normalize", [pytest.param(None, marks=pytest.mark.slow), "l2"])
def test_a_fit_is_that_of_the_dense_rows(rule: Any, normalize: Any) -> None:
    matrix = draw(0, 60)
    matrix = matrix[np.flatnonzero(matrix.sum(axis=1) > 0)]
    known = np.where(np.arange(matrix.shape[0]) < 6, np.arange(matrix.shape[0]) % 3, -1)
    for labels in (None, known):
        model = SLK(3, prototypes=rule, weight=0.3, normalize=normalize, random_state=0)
        dense = SLK(**model.get_params()).fit(matrix.toarray(), partial_labels=labels)
        for form in (sparse.csr_array, sparse.csc_matrix):
            model.fit(form(matrix), partial_labels=labels)
            np.testing.assert_array_equal(model.labels_, dense.labels_)
            # Dense rows are counted from their mean, and so is the step at which a mode is at rest.
            np.testing.assert_allclose(model.cluster_centers_, dense.cluster_centers_, atol=0.02)
            np.testing.assert_allclose(model.objective_, dense.objective_, rtol=1e-3)
            for by in ("graph", "prototypes"):
                np.testing.assert_array_equal(model.predict(matrix, by=by), dense.predict(matrix.toarray(), by=by))
                np.testing.assert_array_equal(model.predict(matrix.toarray(), by=by), dense.predict(matrix, by=by))


def test_medoids_say_that_they_take_dense_rows() -> None:
    with pytest.raises(TypeError, match="dense"):
        SLK(3, prototypes="medoid").fit(draw(0))
    with pytest.raises(InputError, match="row 4"):
        SLK(3).fit(sparse.csr_array(np.where(np.arange(30)[:, None] == 4, np.nan, 1.0)))
