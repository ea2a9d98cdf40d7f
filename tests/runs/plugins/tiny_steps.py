"""Plug-ins for the tests of methods that learn in steps: one that has all that is needed, and one that has not."""

import torch
from sklearn.base import BaseEstimator, ClusterMixin


class Signs(ClusterMixin, BaseEstimator):
    """Clusters by the sign of the first column; its steps do nothing but count."""

    def __init__(self, n_clusters: int = 2, *, steps: int = 3) -> None:
        self.n_clusters = n_clusters
        self.steps = steps

    def fit(self, X, y=None, *, folder=None, log=None, observe=None, advance=None):
        self.mean_ = X[:, 0].mean()
        self.labels_ = (X[:, 0] > self.mean_).astype(int)
        for step in range(self.steps if advance else 0):
            advance(1)
            log.metrics({"loss": 1.0} | (dict(observe(self.labels_)) if observe else {}), step + 1)
        self.n_iter_ = self.steps
        return self

    def planned_steps(self, partial_labels=None):
        return self.steps

    def transform(self, X):
        return X[:, :1] - self.mean_

    def weights(self):
        return {"mean": torch.tensor(float(self.mean_))}

    def with_weights(self, weights):
        self.mean_ = float(weights["mean"])
        return self


class Counting(ClusterMixin, BaseEstimator):
    """Its fit counts, too, but it is no such method: it is fitted as any other."""

    def __init__(self, n_clusters: int = 2) -> None:
        self.n_clusters = n_clusters

    def fit(self, X, y=None, *, advance=None):
        assert advance is None
        self.labels_ = (X[:, 0] > X[:, 0].mean()).astype(int)
        return self
