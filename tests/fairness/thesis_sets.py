"""The two synthetic sets of the thesis, made anew, and small random ones."""

import numpy as np
from sklearn.datasets import make_blobs


def synthetic():
    """The set of the thesis: four blobs, the groups are the rows of blobs."""
    X, _ = make_blobs(
        [100] * 4, centers=[(1, 1), (2.1, 1), (1, 5), (2.1, 5)], cluster_std=0.1, random_state=1, shuffle=False
    )
    return X, np.repeat(["low", "high"], 200)


def unequal():
    centres = [(1, 1), (2.1, 1), (1, 3.5), (2.1, 3.5)]
    X, _ = make_blobs([150, 150, 50, 50], centers=centres, cluster_std=0.13, random_state=1, shuffle=False)
    return X, np.repeat(["low", "high"], [300, 100])


def by_group(X, groups):
    """Starting means: those of the groups, of rows of unit length."""
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    return np.stack([unit[groups == name].mean(axis=0) for name in ("low", "high")])


def draw(seed, N=40, J=3):
    drawn = np.random.default_rng(seed)
    X = drawn.normal(size=(N, 3))
    X[N // 2 :: 4] = X[0]
    return X, np.r_[np.arange(J), drawn.integers(0, J, N - J)]
