"""The objective of fair clustering, point by point. It shares no line with `fairness`."""

import math

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def objective(S: Array, a: Array, groups: Array, weight: float) -> float:
    """sum_pk s_pk a_pk + weight sum_k KL(U || P_k) of assignments S and costs a, both (N, K), and groups (N,), where U
    are the shares of the groups and P_k those in cluster k (Ziko et al., Variational fair clustering)."""
    N, K = S.shape
    total = sum(S[p, k] * a[p, k] for p in range(N) for k in range(K))
    for k in range(K):
        size = sum(S[p, k] for p in range(N))
        for j in sorted(set(groups.tolist())):
            mu = float((groups == j).mean())
            count = sum(S[p, k] for p in range(N) if groups[p] == j)
            total += weight * mu * (math.log(mu) - math.log(count / size))
    return float(total)
