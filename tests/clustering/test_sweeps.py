"""Several settings and seeds of one data set: each as if it had been alone."""

from itertools import product
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.cluster import KMeans

import clustering.slk.estimator
from clustering import SLK
from clustering.sweeps import fit_trials

X = np.random.default_rng(0).normal(size=(90, 4)) + 20 * np.eye(4)[np.arange(90) % 4]
GRID: list[dict[str, Any]] = [{"weight": 0.2}, {"weight": 1.0}, {"weight": 1.0, "n_neighbors": 3, "bandwidth": 2.0}]


def alone(estimator: Any, seeds: Any, grid: Any, **options: Any) -> list[Any]:
    return [
        clone(estimator).set_params(**point, random_state=seed).fit(X, **options)
        for point, seed in product(grid, seeds)
    ]


@pytest.mark.parametrize("rule", ["mean", "mean_shift", "byproduct", "medoid"])
@pytest.mark.parametrize(
    ("starts", "together"),
    [
        ({"n_init": 1}, 1 << 24),
        ({"n_init": 3}, 3 * len(X) * 4),
        pytest.param({"n_init": 2, "weight_path": [0.5]}, 1 << 24, marks=pytest.mark.slow),
    ],
)
def test_each_of_several_trials_is_a_fit_of_its_own(
    rule: Any, starts: Any, together: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clustering.slk.estimator, "TOGETHER", together)
    estimator = SLK(4, prototypes=rule, max_iter=5, **starts)
    seeds = (0, 1)
    for model, expected in zip(
        fit_trials(estimator, X, seeds=seeds, grid=GRID), alone(estimator, seeds, GRID), strict=True
    ):
        assert model.get_params() == expected.get_params()
        np.testing.assert_allclose(model.assignments_, expected.assignments_, atol=1e-9)
        np.testing.assert_array_equal(model.labels_, expected.labels_)
        np.testing.assert_allclose(model.cluster_centers_, expected.cluster_centers_)
        np.testing.assert_allclose(model.objective_, expected.objective_)
        np.testing.assert_allclose(model.objective_trace_, expected.objective_trace_)
        np.testing.assert_allclose(model.mode_movements_, expected.mode_movements_, atol=1e-6)
        assert (model.n_iter_, model.bandwidth_) == (expected.n_iter_, expected.bandwidth_)
        np.testing.assert_allclose(model.start_objectives_, expected.start_objectives_)
        np.testing.assert_array_equal(model.predict(X), expected.predict(X))


def test_trials_share_a_given_graph() -> None:
    estimator = SLK(4)
    graph = clone(estimator).fit(X).graph_
    seeds = (3, 4)
    models = fit_trials(estimator, X, seeds=seeds, grid=GRID[:2], graph=graph)
    assert {id(model.graph_.columns) for model in models} == {id(models[0].graph_.columns)}
    for model, expected in zip(models, alone(estimator, seeds, GRID[:2], graph=graph), strict=True):
        np.testing.assert_array_equal(model.labels_, expected.labels_)


def test_estimators_without_trials_are_fitted_one_by_one() -> None:
    grid = [{"n_clusters": 2}, {"n_clusters": 4}]
    models = fit_trials(KMeans(), X, seeds=(0, 1), grid=grid, graph="not for K-means")
    for model, expected in zip(models, alone(KMeans(), (0, 1), grid), strict=True):
        assert model.get_params() == expected.get_params()
        np.testing.assert_array_equal(model.labels_, expected.labels_)


def test_a_seed_of_the_grid_goes_before_the_seeds() -> None:
    pairs = [{"weight": 0.2, "random_state": 7}, {"weight": 1.0, "random_state": 8}, {"weight": 1.0}]
    for model, point in zip(fit_trials(SLK(4), X, seeds=(5,), grid=pairs), pairs, strict=True):
        expected = SLK(4).set_params(**{"random_state": 5, **point}).fit(X)
        np.testing.assert_array_equal(model.labels_, expected.labels_)
        np.testing.assert_allclose(model.objective_, expected.objective_)
