"""TIM-GD, alpha-TIM, TIM-ADM and their losses, one task, one point, one coordinate at a time. Shares no line with what
it judges."""

import math

Matrix = list[list[float]]


def probabilities(x: list[float], prototypes: Matrix, temperature: float) -> list[float]:
    scores = [-0.5 * temperature * sum((a - b) ** 2 for a, b in zip(x, w, strict=True)) for w in prototypes]
    top = max(scores)
    e = [math.exp(score - top) for score in scores]
    return [value / sum(e) for value in e]


def entropy(p: list[float], alpha: float) -> float:
    if alpha == 1:
        return -sum(value * math.log(max(value, 1e-12)) for value in p)
    return (1 - sum(value**alpha for value in p)) / (alpha - 1)


def loss(
    support: Matrix,
    labels: list[int],
    query: Matrix,
    prototypes: Matrix,
    weights: tuple[float, float, float],
    temperature: float,
    alpha: float,
) -> float:
    cross = [-math.log(probabilities(x, prototypes, temperature)[y]) for x, y in zip(support, labels, strict=True)]
    p = [probabilities(x, prototypes, temperature) for x in query]
    mean = [sum(row[k] for row in p) / len(p) for k in range(len(prototypes))]
    conditional = sum(entropy(row, alpha) for row in p) / len(p)
    return weights[0] * sum(cross) / len(cross) - weights[1] * entropy(mean, alpha) + weights[2] * conditional


def means(support: Matrix, labels: list[int], way: int) -> Matrix:
    result = []
    for k in range(way):
        own = [x for x, y in zip(support, labels, strict=True) if y == k]
        result.append([sum(column) / len(own) for column in zip(*own, strict=True)])
    return result


def adm(p: Matrix, marginal: float, conditional: float, divergence: float = 1.0) -> Matrix:
    a, b = 1 + conditional / divergence, marginal / (marginal + divergence)
    q = []
    for row in p:
        new = [row[k] ** a / sum(other[k] ** a for other in p) ** b for k in range(len(row))]
        q.append([value / sum(new) for value in new])
    return q


def tim_adm(
    support: Matrix,
    labels: list[int],
    query: Matrix,
    way: int,
    weights: tuple[float, float, float],
    temperature: float,
    iterations: int,
) -> Matrix:
    """Query probabilities; in features, with the weights as the paper writes them."""
    w = means(support, labels, way)
    l0, l1, l2 = weights
    at_support, at_query = l0 / (1 + l2), len(support) / len(query)
    for _ in range(iterations):
        p_s = [probabilities(x, w, temperature) for x in support]
        p_q = [probabilities(x, w, temperature) for x in query]
        q = adm(p_q, l1, l2)
        new = []
        for k in range(way):
            top, bottom = [0.0] * len(w[k]), 0.0
            for x, y, p in zip(support, labels, p_s, strict=True):
                given = 1.0 if y == k else 0.0
                bottom += at_support * given
                for d in range(len(top)):
                    top[d] += at_support * (given * x[d] + p[k] * (w[k][d] - x[d]))
            for x, mine, p in zip(query, q, p_q, strict=True):
                bottom += at_query * mine[k]
                for d in range(len(top)):
                    top[d] += at_query * (mine[k] * x[d] + p[k] * (w[k][d] - x[d]))
            new.append([value / bottom for value in top])
        w = new
    return [probabilities(x, w, temperature) for x in query]
