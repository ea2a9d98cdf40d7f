"""Several settings and seeds of one data set: each as if it had been alone."""

from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.cluster import KMeans

from clustering import SLK
from clustering.sweeps import fit_trials

X = np.random.default_rng(0).normal(size=(90, 4)) + 20 * np.eye(4)[np.arange(90) % 4]


def test_each_of_several_trials_is_a_fit_of_its_own_over_the_given_graph() -> None:
    graph = SLK(4, n_init=1).fit(X).graph_
    grid: list[dict[str, Any]] = [{"weight": 0.2, "random_state": 7}, {"weight": 1.0}]
    models = fit_trials(SLK(4, n_init=2), X, seeds=(5, 6), grid=grid, graph=graph)
    points = [grid[0], grid[0], {**grid[1], "random_state": 5}, {**grid[1], "random_state": 6}]
    for model, point in zip(models, points, strict=True):
        expected = SLK(4, n_init=2).set_params(**point).fit(X, graph=graph)
        np.testing.assert_array_equal(model.labels_, expected.labels_)
        assert model.graph_.columns is graph.columns


def test_estimators_without_a_graph_do_not_get_one() -> None:
    grid = [{"n_clusters": 2}, {"n_clusters": 4}]
    for model, point in zip(fit_trials(KMeans(), X, seeds=(0,), grid=grid, graph="none"), grid, strict=True):
        expected = clone(KMeans()).set_params(**point, random_state=0).fit(X)
        np.testing.assert_array_equal(model.labels_, expected.labels_)
