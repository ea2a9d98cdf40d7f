"""Heads on features, one task, one query, one step at a time. Shares no line with what it judges."""

import numpy as np
import torch
from numpy.typing import NDArray

Array = NDArray[np.float64]


def cosine(x: Array, y: Array) -> float:
    return float(x @ y / max(float(np.linalg.norm(x) * np.linalg.norm(y)), 1e-12))


def class_means(support: Array, labels: list[int], way: int) -> list[Array]:
    return [np.mean([s for s, y in zip(support, labels, strict=True) if y == k], axis=0) for k in range(way)]


def softmax(logits: Array) -> Array:
    e = np.exp(logits - logits.max())
    return np.asarray(e / e.sum())


def nearest(support: Array, labels: list[int], query: Array) -> list[int]:
    return [labels[int(np.argmin([float(np.linalg.norm(q - s)) for s in support]))] for q in query]


def matchingnet(support: Array, labels: list[int], query: Array, way: int, temperature: float) -> Array:
    rows = []
    for q in query:
        attention = softmax(np.array([temperature * cosine(q, s) for s in support]))
        rows.append([sum(a for a, y in zip(attention, labels, strict=True) if y == k) for k in range(way)])
    return np.array(rows)


def protonet(support: Array, labels: list[int], query: Array, way: int, temperature: float) -> Array:
    means = class_means(support, labels, way)
    return np.array([softmax(np.array([-temperature * float(((q - m) ** 2).sum()) for m in means])) for q in query])


def bd_cspn(
    support: Array,
    labels: list[int],
    query: Array,
    way: int,
    *,
    shift: bool,
    temperature: float,
    variant: str,
) -> Array:
    moved = query + (support.mean(0) - query.mean(0)) if shift else query
    means = class_means(support, labels, way)
    everything = list(support) + list(moved)
    joined = [int(np.argmax([cosine(x, m) for m in means])) for x in everything]
    published = variant == "published"
    if not published:
        joined[: len(labels)] = labels
    prototypes = []
    for k in range(way):
        members = [i for i in range(len(everything)) if joined[i] == k]
        if not members:
            prototypes.append(means[k])
            continue
        of_class = [softmax(np.array([temperature * cosine(everything[i], m) for m in means]))[k] for i in members]
        share = np.array(of_class) / len(members)
        prototypes.append(sum((w * everything[i] for w, i in zip(share, members, strict=True)), 0 * means[k]))
    rows = []
    for q in query if published else moved:
        if published:
            rows.append(softmax(np.array([-float(((q - m) ** 2).sum()) for m in prototypes])))
        else:
            rows.append(softmax(np.array([temperature * cosine(q, m) for m in prototypes])))
    return np.array(rows)


def label_propagation(
    support: Array, labels: list[int], query: Array, way: int, n_neighbors: int, alpha: float, width: float
) -> Array:
    points = list(support) + list(query)
    n = len(points)
    distance = np.array([[float(np.linalg.norm(x - y)) for y in points] for x in points])
    near = []
    for i in range(n):
        others = sorted((j for j in range(n) if j != i), key=lambda j: (distance[i, j], j))
        near.append(others[:n_neighbors])
    farthest = sorted(distance[i, near[i][-1]] for i in range(n))
    radius = farthest[(n - 1) // 2]
    W = np.eye(n)
    for i in range(n):
        for j in range(n):
            if i != j and (j in near[i] or i in near[j]):
                W[i, j] = np.exp(-(distance[i, j] ** 2) / (2 * (width * radius) ** 2))
    degree = W.sum(1)
    S = np.array([[W[i, j] / np.sqrt(degree[i] * degree[j]) for j in range(n)] for i in range(n)])
    known = np.zeros((n, way))
    for i, y in enumerate(labels):
        known[i, y] = 1
    F = np.linalg.inv(np.eye(n) - alpha * S) @ known
    means = class_means(support, labels, way)
    rows = []
    for i in range(len(support), n):
        if F[i].sum() > 0:
            rows.append(F[i] / F[i].sum())
        else:
            rows.append(softmax(np.array([-float(((points[i] - m) ** 2).sum()) for m in means])))
    return np.array(rows)


def trained_head(
    support: Array,
    labels: list[int],
    query: Array,
    weights: Array,
    bias: Array | None,
    orders: list[list[int]],
    *,
    batch: int,
    scale: float,
    learning_rate: float,
    momentum: float,
    dampening: float,
    weight_decay: float,
) -> tuple[Array, int]:
    """A linear head, or without bias a cosine head of learned lengths, by autograd and torch's own optimiser."""
    x, targets, q = torch.from_numpy(support), torch.tensor(labels), torch.from_numpy(query)
    w = torch.from_numpy(weights.copy()).requires_grad_()
    second = torch.from_numpy(bias.copy()) if bias is not None else w.detach().norm(dim=1, keepdim=True).clone()
    second.requires_grad_()
    optimiser = torch.optim.SGD(
        [w, second], lr=learning_rate, momentum=momentum, dampening=dampening, weight_decay=weight_decay
    )

    def logits(rows: torch.Tensor) -> torch.Tensor:
        if bias is not None:
            return rows @ w.T + second
        rows = rows / (rows.norm(dim=1, keepdim=True) + 1e-5)
        return scale * rows @ (second * w / w.norm(dim=1, keepdim=True)).T

    steps = 0
    with torch.enable_grad():
        for order in orders:
            for first in range(0, len(order), batch):
                chosen = order[first : first + batch]
                optimiser.zero_grad()
                torch.nn.functional.cross_entropy(logits(x[chosen]), targets[chosen]).backward()  # type: ignore[no-untyped-call]
                optimiser.step()
                steps += 1
    return np.asarray(torch.softmax(logits(q).detach(), dim=1).numpy()), steps


def entropy_min(
    support: Array,
    labels: list[int],
    query: Array,
    way: int,
    *,
    temperature: float,
    weight: float,
    learning_rate: float,
    iterations: int,
) -> tuple[Array, list[float]]:
    """By autograd and torch's own optimiser; the losses are those before each step."""
    x, targets, q = torch.from_numpy(support), torch.tensor(labels), torch.from_numpy(query)
    w = torch.from_numpy(np.array(class_means(support, labels, way))).requires_grad_()
    optimiser = torch.optim.Adam([w], lr=learning_rate)

    def logits(rows: torch.Tensor) -> torch.Tensor:
        return -temperature / 2 * ((rows[:, None] - w[None]) ** 2).sum(2)

    losses = []
    with torch.enable_grad():
        for _ in range(iterations):
            optimiser.zero_grad()
            log_p = torch.log_softmax(logits(q), dim=1)
            entropy = -(log_p.exp() * log_p).sum(1).mean()
            loss = torch.nn.functional.cross_entropy(logits(x), targets) + weight * entropy
            losses.append(float(loss.detach()))
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
    return np.asarray(torch.softmax(logits(q).detach(), dim=1).numpy()), losses
