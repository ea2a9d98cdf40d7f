"""TransCLIP, StatA, EM-Dirichlet, ZLaP, Tip-Adapter, LP++, SS-Text-U and LATA, one task at a time, as their papers and
public codes describe them. Shares no line with what it judges."""

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from scipy.special import digamma, gammaln

from tests.oracles.parts import class_means, graph, softmax, squared_distances, unit

Array = NDArray[np.float64]


def affinity(f: Array, k: int) -> Array:
    """(W + W^T) / (2 k), W the cosines to the k nearest others."""
    return graph(f, k) * (f @ f.T) / k


def gaussian_logits(f: Array, mu: Array, variances: Array, determinant: bool) -> Array:
    logits = np.zeros((len(f), len(mu)))
    for i in range(len(f)):
        for k in range(len(mu)):
            v = variances[k if len(variances) > 1 else 0]
            logits[i, k] = -0.5 * ((f[i] - mu[k]) ** 2 / v).sum()
            if determinant:
                logits[i, k] -= 0.5 * np.log(v).sum()
    return logits


def transclip(
    support: Array, labels: list[int], query: Array, text: Array, scale: float, gamma: float, n_neighbors: int
) -> Array:
    """The public code: z is stacked as queries, then support; the graph is of support, then queries."""
    f, s, t = unit(query), unit(support), unit(text)
    N, S, K = len(f), len(s), len(t)
    yhat = softmax(scale * f @ t.T)
    z, onehot = yhat.copy(), np.eye(K)[labels] if S else np.zeros((0, K))
    lam = 0.5 if S else 1.0
    A = affinity(np.concatenate([s, f]), n_neighbors)
    mu = np.zeros_like(t)
    for k in range(K):
        if S:
            mu[k] = s[[label == k for label in labels]].mean(0)
        else:
            top = np.argsort(-yhat[:, k], kind="stable")[: min(8, N)]
            mu[k] = (yhat[top, k, None] * f[top]).sum(0)
    mu, variance = unit(mu), np.full((1, f.shape[1]), 1 / f.shape[1])
    shot = 50 * gamma * N / S if S else 0.0
    for step in range(11):
        logits = gaussian_logits(f, mu, variance, determinant=False) / 50 + lam * np.log(yhat)
        for _ in range(5):
            z = softmax(logits + (A @ np.concatenate([z, onehot]))[:N])
        if step == 10:
            return z
        mu = unit(z.T @ f + shot * onehot.T @ s)
        squares = np.zeros(f.shape[1])
        for k in range(K):
            squares += (z[:, k, None] * (f - mu[k]) ** 2).sum(0)
            squares += shot * (onehot[:, k, None] * (s - mu[k]) ** 2).sum(0)
        variance = (squares / (N + shot * S))[None]
    raise AssertionError


def stata(query: Array, text: Array, scale: float, alpha: float, n_neighbors: int) -> Array:
    """The public code, without support."""
    f, t = unit(query), unit(text)
    N, K = len(f), len(t)
    yhat = softmax(scale * f @ t.T)
    z, A = yhat.copy(), affinity(f, n_neighbors)
    pooled = sum((yhat[:, k, None] * (f - t[k]) ** 2).sum(0) for k in range(K)) / N
    mu, variances = t.copy(), np.repeat(pooled[None], K, axis=0)
    for step in range(11):
        logits = gaussian_logits(f, mu, variances, determinant=True) / 50 + np.log(yhat)
        for _ in range(5):
            z = softmax(logits + A @ z)
        if step == 10:
            return z
        counts = np.bincount(z.argmax(1), minlength=K)
        for k in range(K):
            beta = counts[k] / (alpha + counts[k])
            mu[k] = unit(beta * unit(z[:, k] @ f) + (1 - beta) * t[k])
            within = (z[:, k, None] * (f - mu[k]) ** 2).sum(0) / z[:, k].sum()
            variances[k] = beta * within + (1 - beta) * (pooled + (t[k] - mu[k]) ** 2)
    raise AssertionError


def em_dirichlet(
    query: Array, text: Array, sharpness: float, weight: float, rounds: int, inner: int, hard: bool
) -> Array:
    """The public code, without support, with matching."""
    q = softmax(sharpness * unit(query) @ unit(text).T)
    logs, K = np.log(np.maximum(q, 1e-10)), q.shape[1]
    u, alpha = q.copy(), np.ones((K, K))
    for _ in range(rounds):
        for k in range(K):
            mean = u[:, k] @ logs / u[:, k].sum() if u[:, k].sum() > 1e-6 else None
            if mean is None:
                continue
            a = alpha[k]
            for _ in range(inner):
                c = np.abs(2 * (-gammaln(a + 1) + a * digamma(a + 1)) / a**2)
                b = digamma(a + 1) - digamma(a.sum()) - c * a - mean
                a = (-b + np.sqrt(b**2 + 4 * c)) / (2 * c)
            alpha[k] = a
        density = np.array(
            [[gammaln(a.sum()) - gammaln(a).sum() + ((a - 1) * row).sum() for a in alpha] for row in logs]
        )
        u = softmax(density + weight * (np.log(u.mean(0) + 1e-6) + 1))
        if hard:
            u = np.eye(K)[u.argmax(1)]
    means = np.array([u[:, k] @ q / max(u[:, k].sum(), 1e-10) for k in range(K)])
    clusters, classes = linear_sum_assignment(means, maximize=True)
    out = np.zeros_like(u)
    out[:, classes] = u[:, clusters]
    return out


def zlap(query: Array, text: Array, n_neighbors: int, texts: int, power: float, alpha: float) -> Array:
    """Scores by a dense solver, normalised."""
    f, t = unit(query), unit(text)
    N, K = len(f), len(t)
    W = np.zeros((K + N, K + N))
    for i in range(N):
        near = np.argsort(-(f @ f[i]), kind="stable")[:n_neighbors]
        for j in near:
            if j != i:
                W[K + i, K + j] = max(f[i] @ f[j], 0)
        for k in np.argsort(-(t @ f[i]), kind="stable")[:texts]:
            W[K + i, k] = max(t[k] @ f[i], 0) ** power
    W = W + W.T
    root = np.sqrt(np.maximum(W.sum(1), 1e-300))
    scores = np.linalg.solve(np.eye(K + N) - alpha * W / np.outer(root, root), np.eye(K + N)[:, :K])[K:]
    return scores / scores.sum(1, keepdims=True)


def tip_adapter(
    support: Array, labels: list[int], query: Array, text: Array, scale: float, alpha: float, beta: float
) -> Array:
    f, s, t = unit(query), unit(support), unit(text)
    logits = scale * f @ t.T
    for i in range(len(f)):
        for shot, label in zip(s, labels, strict=True):
            logits[i, label] += alpha * np.exp(-beta * (1 - f[i] @ shot))
    return softmax(logits)


def ss_text_u(support: Array, labels: list[int], query: Array, text: Array, scale: float, steps: int) -> Array:
    """Scaling of rows and columns in turn, many times, with the shares of the labels as in the public code."""
    s, f, t = unit(support), unit(query), unit(text)
    counts = np.array([labels.count(k) for k in range(len(t))], float)
    shares = np.array([n or min(m for m in counts if m) / 4 for n in counts])
    w = t
    for _ in range(steps):
        plan = np.exp(scale * f @ unit(w).T)
        for _ in range(5000):
            plan *= shares / shares.sum() / plan.sum(0)
            plan /= len(f) * plan.sum(1, keepdims=True)
        w = np.array([t[k] + scale * plan[:, k] @ f for k in range(len(t))])
        for x, k in zip(s, labels, strict=True):
            w[k] += scale * counts[k] / (2 * len(s)) * x
    return softmax(scale * f @ unit(w).T)


def lp_plus_plus(support: Array, labels: list[int], query: Array, text: Array, steps: int) -> tuple[Array, list[float]]:
    """The public code: stochastic gradient descent on the whole support with momentum 0.9, biases from 0, the blending
    parameters by the gradient before every tenth step. Returns probabilities and losses."""
    s, t = unit(support), unit(text)
    N, K = len(s), len(t)
    y = np.eye(K)[labels]
    w = class_means(s, labels, K)
    bias, v, vb = np.zeros(K), np.zeros_like(w), np.zeros(K)
    cosines = s @ t.T
    alpha = np.full(K, 250 * np.mean([cosines[[label == k for label in labels], k].mean() for k in range(K)]))
    rate = 4 * N / np.linalg.eigvalsh(s.T @ s).max()
    rate_alpha = N / (4 * (cosines**2).sum(0).max())
    losses = []
    for step in range(1, steps + 1):
        p = softmax(s @ w.T + bias + alpha * cosines)
        losses.append(float(-np.log((p * y).sum(1)).mean()))
        error = (p - y) / N
        v, vb = 0.9 * v + error.T @ s, 0.9 * vb + error.sum(0)
        w, bias = w - rate * v, bias - rate * vb
        if step % 10 == 0:
            alpha = alpha - rate_alpha * (error * cosines).sum(0)
    f = unit(query)
    return softmax(f @ w.T + bias + alpha * (f @ t.T)), losses


def lata(query: Array, text: Array, scale: float, n_neighbors: int, weight: float) -> Array:
    """Eight parallel updates on the graph of mutual nearest neighbours, from the zero-shot probabilities."""
    f = unit(query)
    q = softmax(scale * f @ unit(text).T)
    squared = squared_distances(f, f)
    width = np.sort(squared[graph(f, n_neighbors, "directed") > 0])
    width = width[(len(width) - 1) // 2]  # the lower median, as torch's
    W = graph(f, n_neighbors, "mutual") * np.exp(-squared / width)
    z = q.copy()
    for _ in range(8):
        z = q * np.exp(weight * W @ z)
        z = z / z.sum(1, keepdims=True)
    return z
