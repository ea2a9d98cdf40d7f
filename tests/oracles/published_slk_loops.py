"""SLK as the authors' public code runs it, one trial, in plain loops over NumPy arrays."""

from typing import Any

import numpy as np

from tests.oracles.parts import softmax, squared_distances


def bound_steps(a: Any, W: Any, weight: float) -> Any:
    S, energy = softmax(-a), np.inf
    for sweep in range(1000):
        S = softmax(-a + weight * (W @ S))
        last, energy = energy, (S * np.log(np.maximum(S, 1e-20)) + a * S - weight * (W @ S) * S).sum()
        if sweep > 1 and abs(energy - last) <= 1e-6 * abs(last):
            break
    return S


def shifted(members: Any, m: Any, variance: float) -> Any:
    for _ in range(1000):
        weights = np.exp(-((members - m) ** 2).sum(axis=1) / (2 * variance))
        old, m = m, weights @ members / weights.sum()
        if np.abs(m - old).max() < 1e-5 * np.abs(m).max():
            break
    return m


def densest(members: Any, variance: float) -> Any:
    return members[np.argmax([np.exp(-((members - m) ** 2).sum(axis=1) / (2 * variance)).sum() for m in members])]


def slk(kind: str, X: Any, W: Any, seeds: Any, weight: float, variance: float) -> Any:
    """Labels (N,) and prototypes (K, D)."""
    M, K = seeds.copy(), len(seeds)
    labels, S, energy = squared_distances(X, M).argmin(axis=1), None, np.inf
    for update in range(100):
        groups = [X[labels == k] for k in range(K)]
        if kind == "mean_shift":
            new = np.stack([shifted(group, m, variance) for group, m in zip(groups, M, strict=True)])
        elif kind == "byproduct":
            new = X[S.argmax(axis=0)] if S is not None else np.stack([densest(group, variance) for group in groups])
        elif S is None:
            new = np.stack([group.mean(axis=0) for group in groups])
        else:
            new = S.T @ X / S.sum(axis=0)[:, None]
        a = squared_distances(X, new)
        if kind != "mean":
            a = -np.exp(-a / (2 * variance))
        found = bound_steps(a, W, weight)
        if len(np.unique(found.argmax(axis=1))) < K:
            break
        S, M, labels = found, new, found.argmax(axis=1)
        last, energy = energy, (a * S).sum() - weight * (S * (W @ S)).sum()
        if update > 1 and abs(energy - last) <= 1e-5 * abs(last):
            break
    return labels, M
