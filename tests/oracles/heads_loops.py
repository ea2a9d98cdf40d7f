"""Heads on features, one task, one query, one step at a time. Shares no line with what it judges."""

import numpy as np
import torch
from numpy.typing import NDArray

from tests.oracles.parts import class_means, graph, softmax, squared_distances

Array = NDArray[np.float64]


def cosine(x: Array, y: Array) -> float:
    return float(x @ y / max(float(np.linalg.norm(x) * np.linalg.norm(y)), 1e-12))


def nearest(support: Array, labels: list[int], query: Array) -> list[int]:
    return [labels[int(np.argmin([float(np.linalg.norm(q - s)) for s in support]))] for q in query]


def matchingnet(support: Array, labels: list[int], query: Array, way: int, temperature: float) -> Array:
    rows = []
    for q in query:
        attention = softmax(np.array([temperature * cosine(q, s) for s in support]))
        rows.append([sum(a for a, y in zip(attention, labels, strict=True) if y == k) for k in range(way)])
    return np.array(rows)


def protonet(support: Array, labels: list[int], query: Array, way: int, temperature: float) -> Array:
    return np.asarray(softmax(-temperature * squared_distances(query, class_means(support, labels, way))))


def bd_cspn(
    support: Array, labels: list[int], query: Array, way: int, *, shift: bool, temperature: float, variant: str
) -> Array:
    moved = query + (support.mean(0) - query.mean(0)) if shift else query
    everything = np.concatenate([support, moved])
    prototypes = class_means(support, labels, way)
    cosines = np.array([[cosine(x, m) for m in prototypes] for x in everything])
    joined, shares = cosines.argmax(axis=1), softmax(temperature * cosines)
    if variant != "published":
        joined[: len(labels)] = labels
    for k in range(way):
        members = joined == k
        if members.any():
            prototypes[k] = shares[members, k] @ everything[members] / members.sum()
    if variant == "published":
        return np.asarray(softmax(-squared_distances(query, prototypes)))
    return np.asarray(softmax(temperature * np.array([[cosine(q, m) for m in prototypes] for q in moved])))


def label_propagation(
    support: Array, labels: list[int], query: Array, way: int, n_neighbors: int, alpha: float, width: float
) -> Array:
    x = np.concatenate([support, query])
    n, distance = len(x), np.sqrt(squared_distances(x, x))
    farthest = np.sort(np.sort(distance, axis=1)[:, min(n_neighbors, n - 1)])  # the nearest is the point itself
    radius = farthest[(n - 1) // 2]
    W = np.eye(n) + graph(x, n_neighbors, "union") * np.exp(-(distance**2) / (2 * (width * radius) ** 2))
    S = W / np.sqrt(np.outer(W.sum(1), W.sum(1)))
    known = np.concatenate([np.eye(way)[labels], np.zeros((len(query), way))])
    F = np.linalg.inv(np.eye(n) - alpha * S) @ known
    near = softmax(-squared_distances(x, class_means(support, labels, way)))
    return np.array([F[i] / F[i].sum() if F[i].sum() > 0 else near[i] for i in range(len(support), n)])


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
