"""Fair clustering, slowly: the objective point by point, the Jensen majoriser of the fairness term, the fair linear
programme. None shares a line with `fairness`."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog

Array = NDArray[np.float64]


def objective(S: Array, a: Array, groups: Array, weight: float, e: float = 0.0) -> float:
    """sum_pk s_pk a_pk + weight sum_k KL(U || P_k), of groups (N,) numbered from 0, U their shares, with e points of
    proportions U added to every cluster."""
    N, K = S.shape
    total = sum(S[p, k] * a[p, k] for p in range(N) for k in range(K))
    names = sorted(set(groups.tolist()))
    for k in range(K):
        size = sum(S[p, k] for p in range(N)) + e
        for j in names:
            mu = float((groups == j).mean())
            count = sum(S[p, k] for p in range(N) if groups[p] == j) + mu * e
            total += weight * mu * (math.log(mu) - math.log(count / size))
    return float(total)


def fair_programme(a: Array, groups: Array) -> float:
    """min sum_pk s_pk a_pk over assignments in which every cluster has the groups' shares exactly."""
    N, K = a.shape
    names = sorted(set(groups.tolist()))
    equal: list[Any] = [np.repeat(np.eye(N)[p], K) for p in range(N)]
    right = [1.0] * N
    for j in names:
        mu = float((groups == j).mean())
        for k in range(K):
            equal.append(np.outer((groups == j) - mu, np.eye(K)[k]).ravel())
            right.append(0.0)
    found = linprog(a.ravel(), A_eq=np.array(equal), b_eq=np.array(right), bounds=(0, 1), method="highs")
    assert found.status == 0
    return float(found.fun)
