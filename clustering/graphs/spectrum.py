"""Eigenvectors of neighbour graphs by Lanczos iterations, without N x N matrices except if N is at most 200."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import null_space, orth
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import LinearOperator, eigsh

Vectors = NDArray[np.float64]

_DENSE = 200
"""Number of points up to which all eigenvectors are computed densely."""

_TOLERANCE = 1e-7
"""Relative tolerance of eigenvalues."""


def leading_eigenvectors(
    graph: csr_array,
    count: int,
    regularization: float,
    generator: np.random.Generator,
    *,
    orthogonal_to: Vectors | None = None,
) -> Vectors:
    """(n, count) eigenvectors of the largest eigenvalues of M = D^-1/2 (W + t / n 1 1^T) D^-1/2, D the row sums.

    The eigenvectors with eigenvalue 1 of an unregularised W are known, one per connected component, and are not
    searched: Lanczos iterations find one vector per eigenvalue, and others only through rounding.

    Args:
        graph: (n, n) symmetric W >= 0, every row with an arc.
        count: at most n; if there are more known eigenvectors, only this number is returned.
        regularization: t in units of the mean degree, >= 0.
        generator: random generator of the initial vector.
        orthogonal_to: (n, c) few vectors; the eigenvectors are those of P M P, where P projects onto the orthogonal
            complement of these vectors, and are orthogonal to them.
    """
    points = graph.shape[0]
    spread = regularization * float(graph.sum()) / points
    degrees = graph.sum(axis=1) + spread
    scale = degrees**-0.5
    barred = np.empty((points, 0)) if orthogonal_to is None else orth(orthogonal_to)
    known = np.empty((points, 0))
    if spread == 0:
        components, component = connected_components(graph, directed=False)
        known = np.zeros((points, components))
        known[np.arange(points), component] = np.sqrt(degrees)
        known /= np.linalg.norm(known, axis=0)
        if barred.shape[1]:
            known = known @ null_space(barred.T @ known)

    def product(x: Vectors) -> Vectors:
        x = x.ravel()
        projection = barred @ (barred.T @ x)
        y = scale * (x - projection)
        y = scale * (graph @ y + spread * y.mean())
        y -= barred @ (barred.T @ y)
        return np.asarray(y - 2 * projection - 2 * (known @ (known.T @ x)))  # shifts the known eigenvalues to -2 and -1

    missing = count - known.shape[1]
    if missing <= 0:
        return known[:, :count]
    vectors = _largest(product, points, missing, generator)
    return np.concatenate([known, vectors], axis=1)


def _largest(product: Callable[[Vectors], Vectors], points: int, count: int, generator: np.random.Generator) -> Vectors:
    """(points, count) eigenvectors with the largest eigenvalues, descending."""
    if points <= max(_DENSE, 2 * count + 2):
        columns = [product(unit) for unit in np.eye(points)]
        return np.asarray(np.linalg.eigh(np.stack(columns, axis=1))[1][:, : -count - 1 : -1])
    operator = LinearOperator((points, points), matvec=product, dtype=np.float64)
    start = generator.normal(size=points)
    room = min(points, max(4 * count, 40))
    return np.asarray(eigsh(operator, k=count, which="LA", ncv=room, tol=_TOLERANCE, v0=start)[1][:, ::-1])
