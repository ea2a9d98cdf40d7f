"""Optimal transport to classes and the few-shot methods on it, one task and one entry at a time. Shares no line with
what it judges."""

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from tests.oracles.parts import class_means, graph, squared_distances, unit

Array = NDArray[np.float64]


def balanced(scores: Array, columns: Array | None = None) -> Array:
    """One transport of N points to K classes of N / K, or of these sizes, until nothing moves."""
    n, k = scores.shape
    sizes = np.full(k, n / k) if columns is None else columns
    kernel = np.exp(scores - scores.max(axis=1, keepdims=True))
    for _ in range(3000):
        kernel = kernel / kernel.sum(axis=1, keepdims=True)
        if np.abs(kernel.sum(axis=0) - sizes).max() < 1e-13 * n:
            break
        kernel = kernel / kernel.sum(axis=0, keepdims=True) * sizes
    return np.asarray(kernel / kernel.sum(axis=1, keepdims=True))


def power(x: Array) -> Array:
    return unit(np.sqrt(x + 1e-6))


def centre(support: Array, query: Array, how: str) -> tuple[Array, Array]:
    if how == "apart":
        support, query = support - support.mean(0), query - query.mean(0)
    elif how == "together":
        mean = np.concatenate([support, query]).mean(0)
        support, query = support - mean, query - mean
    return unit(support), unit(query)


def affinities(support: Array, query: Array, regularisation: float) -> tuple[Array, Array]:
    """Rows of the balanced affinity matrix, of support and queries."""
    x = np.concatenate([support, query])
    n = len(x)
    W = np.array(
        [[0.0 if i == j else math.exp((x[i] @ x[j] - 1) / regularisation) for j in range(n)] for i in range(n)]
    )
    for _ in range(2000):
        W = W / W.sum(axis=0, keepdims=True)
        W = W / W.sum(axis=1, keepdims=True)
    W = W / W.max()
    for i in range(n):
        W[i, i] = 1
    return W[: len(support)], W[len(support) :]


def bpa(support: Array, labels: list[int], query: Array, way: int, *, regularisation: float, **options: float) -> Array:
    """Both centred on their own, then PT-MAP on the affinities."""
    support, query = affinities(*centre(power(support), power(query), "apart"), regularisation)
    return pt_map_from(support, labels, query, way, **options)  # type: ignore[arg-type]


def pt_map(
    support: Array,
    labels: list[int],
    query: Array,
    way: int,
    *,
    centring: str,
    beta: float,
    rate: float,
    max_iter: int,
) -> Array:
    support, query = centre(power(support), power(query), centring)
    return pt_map_from(support, labels, query, way, beta=beta, rate=rate, max_iter=max_iter)


def pt_map_from(
    support: Array, labels: list[int], query: Array, way: int, *, beta: float, rate: float, max_iter: int
) -> Array:
    prototypes = class_means(support, labels, way)
    for _ in range(max_iter):
        P = balanced(-beta * squared_distances(query, prototypes))
        for k in range(way):
            members = [x for x, y in zip(support, labels, strict=True) if y == k]
            total = np.sum(members, axis=0) + np.sum([p[k] * q for p, q in zip(P, query, strict=True)], axis=0)
            estimate = total / (len(members) + P[:, k].sum())
            prototypes[k] = prototypes[k] + rate * (estimate - prototypes[k])
    return balanced(-beta * squared_distances(query, prototypes))


def protolp(
    support: Array,
    labels: list[int],
    query: Array,
    way: int,
    *,
    dimensions: int,
    centring: str,
    beta: float,
    laplacian: str,
    gamma: float,
    mix: float,
    rate: float,
    max_iter: int,
) -> Array:
    everything = np.concatenate([power(support), power(query)])
    everything = everything @ np.linalg.svd(everything, full_matrices=False)[2][:dimensions].T
    support, query = centre(everything[: len(support)], everything[len(support) :], centring)
    everything = np.concatenate([support, query])
    T = np.eye(way)[labels]
    prototypes = unit(class_means(support, labels, way))
    for _ in range(max_iter):
        Z = np.concatenate([T, balanced(-beta * squared_distances(query, prototypes))])
        walk = Z.T @ Z @ np.diag(1 / Z.sum(0))
        L = np.eye(way) - walk if laplacian == "random_walk" else Z.T @ Z - walk @ Z.T @ Z
        A = np.linalg.inv(T.T @ T + gamma * L) @ T.T @ T
        F = np.concatenate([T, balanced(np.log(Z[len(T) :] @ A))])
        weights = mix * F + (1 - mix) * Z
        for k in range(way):
            estimate = sum(w * x for w, x in zip(weights[:, k], everything, strict=True)) / weights[:, k].sum()
            prototypes[k] = prototypes[k] + rate * (estimate - prototypes[k])
    return balanced(-beta * squared_distances(query, prototypes))


def ilpc(
    support: Array,
    labels: list[int],
    query: Array,
    way: int,
    *,
    centring: str,
    n_neighbors: int,
    alpha: float,
    power_of_labels: float,
    keep: int,
    steps: int,
) -> list[int]:
    """Labels of the queries."""
    support, query = centre(power(support), power(query), centring)
    x = np.concatenate([support, query])
    n, answers = len(x), dict(enumerate(labels))
    W = 2 * graph(x, n_neighbors) * np.maximum(x @ x.T, 0) ** 3
    degree = np.array([row.sum() or 1.0 for row in W])
    W = W / np.sqrt(np.outer(degree, degree))
    quota = [len(query) / way] * way
    while left := [i for i in range(n) if i not in answers]:
        Y = np.zeros((n, way))
        for i, y in answers.items():
            Y[i, y] = 1
        F = np.maximum(np.linalg.solve(np.eye(n) - alpha * W, Y), 0)
        F = np.array([row / max(row.sum(), 1e-24) for row in F])
        scores = power_of_labels * np.log(np.maximum(F[left], 1e-24))
        P = balanced(scores, np.array([max(q * len(left) / sum(quota), 1e-300) for q in quota]))
        guess = {i: int(np.argmax(p)) for i, p in zip(left, P, strict=True)}
        losses = training_losses(x, answers, {**answers, **guess}, way, steps)
        chosen = []
        for k in range(way):
            chosen += sorted((i for i in left if guess[i] == k), key=lambda i: (losses[i], i))[:keep]
        if len(chosen) < way:
            answers.update(guess)
            break
        for i in chosen:
            answers[i] = guess[i]
            quota[guess[i]] = max(quota[guess[i]] - 1, 0)
    return [answers[i] for i in range(len(support), n)]


def training_losses(
    x: Array,
    known: dict[int, int],
    labels: dict[int, int],
    way: int,
    steps: int,
    rate: float = 0.1,
    decay: float = 5e-4,
) -> list[float]:
    w = unit(class_means(x[list(known)], list(known.values()), way))
    b, rate, decay = np.zeros(way), 0.1, 5e-4
    w_step, b_step = np.zeros_like(w), np.zeros_like(b)
    totals = [0.0] * len(x)
    for _ in range(steps):
        w_gradient, b_gradient = decay * w, decay * b
        for i in range(len(x)):
            scores = w @ x[i] + b
            error = np.exp(scores - logsumexp(scores))
            totals[i] += logsumexp(scores) - scores[labels[i]]
            error[labels[i]] -= 1
            w_gradient = w_gradient + np.outer(error, x[i]) / len(x)
            b_gradient = b_gradient + error / len(x)
        w_step, b_step = 0.9 * w_step + w_gradient, 0.9 * b_step + b_gradient
        w, b = w - rate * w_step, b - rate * b_step
    return [total / steps for total in totals]
