"""A fit is told what its method accepts, and nothing else."""

import numpy as np
import pytest
from sklearn.cluster import KMeans

from clustering import SLK
from clustering.foundation.errors import InputError
from clustering.sweeps import fitted

X = np.random.default_rng(0).normal(size=(90, 4)) + 20 * np.eye(4)[np.arange(90) % 4]


def test_a_graph_and_labels_go_to_methods_that_take_them() -> None:
    graph = SLK(4, n_init=1).fit(X).graph_
    known = np.where(np.arange(90) < 8, np.arange(90) % 4, -1)
    model = fitted(SLK(4, n_init=2, random_state=0), X, graph=graph, partial_labels=known)
    assert model.graph_.columns is graph.columns
    assert (model.labels_[:8] == known[:8]).all()
    assert len(set(fitted(KMeans(4, random_state=0), X, graph="none").labels_)) == 4
    with pytest.raises(InputError, match="KMeans does not accept known labels"):
        fitted(KMeans(4), X, partial_labels=known)
