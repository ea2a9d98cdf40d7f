"""Spectral clustering with fairness constraints by dense matrices, Algorithm 3 of Kleindessner et al. 2019."""

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import null_space, sqrtm

Floats = NDArray[np.float64]


def fair_vectors(W: Floats, indicators: Floats, K: int) -> Floats:
    """(N, K) vectors H of least tr(H^T L H) with H^T D H = I and F^T H = 0."""
    D = np.diag(W.sum(axis=1))
    F = indicators - indicators.mean(axis=0)
    Z = null_space(F[:, :-1].T) if indicators.shape[1] > 1 else np.eye(len(W))
    Q = np.real(sqrtm(Z.T @ D @ Z))
    inverse = np.linalg.inv(Q)
    _, Y = np.linalg.eigh(inverse @ Z.T @ (D - W) @ Z @ inverse)
    return np.asarray(Z @ inverse @ Y[:, :K])
