"""Eigenvectors of neighbour graphs, by Lanczos iterations: nothing is N x N, except where N is at most 200."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import null_space, orth
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import LinearOperator, eigsh

Vectors = NDArray[np.float64]

_DENSE = 200
"""Points up to which all eigenvectors are computed at once."""

_TOLERANCE = 1e-7
"""Of eigenvalues, relative."""


def leading_eigenvectors(
    graph: csr_array,
    count: int,
    regularization: float,
    generator: np.random.Generator,
    *,
    orthogonal_to: Vectors | None = None,
) -> Vectors:
    """(n, count) eigenvectors of the largest eigenvalues of M = D^-1/2 (W + t / n 1 1^T) D^-1/2, D the sums of rows.

    Those of the eigenvalue 1 of an unregularised W are known, one for each connected component, and are not searched
    for: Lanczos iterations find one vector of an eigenvalue, others only by rounding.

    Args:
        graph: (n, n) symmetric W >= 0, every row with an arc.
        count: at most n, and at least the number of known ones, of which more are left out.
        regularization: t in units of the mean degree, >= 0.
        generator: of the first vector.
        orthogonal_to: (n, c) of vectors, with c few: eigenvectors are those of P M P, P the projector on what is
            orthogonal to them all, and are so themselves.
    """
    points = graph.shape[0]
    spread = regularization * float(graph.sum()) / points
    degrees = graph.sum(axis=1) + spread
    scale = degrees**-0.5
    barred = np.empty((points, 0)) if orthogonal_to is None else orth(orthogonal_to)
    known = np.empty((points, 0))
    if spread == 0:
        components, of = connected_components(graph, directed=False)
        known = np.zeros((points, components))
        known[np.arange(points), of] = np.sqrt(degrees)
        known /= np.linalg.norm(known, axis=0)
        if barred.shape[1]:
            known = known @ null_space(barred.T @ known)

    def product(x: Vectors) -> Vectors:
        x = x.ravel()
        along = barred @ (barred.T @ x)
        y = scale * (x - along)
        y = scale * (graph @ y + spread * y.mean())
        y -= barred @ (barred.T @ y)
        return np.asarray(y - 2 * along - 2 * (known @ (known.T @ x)))  # these get eigenvalues -2 and -1

    wanted = count - known.shape[1]
    if wanted <= 0:
        return known[:, :count]
    found = _largest(product, points, wanted, generator)
    return np.concatenate([known, found], axis=1)


def _largest(product: Callable[[Vectors], Vectors], points: int, count: int, generator: np.random.Generator) -> Vectors:
    """(points, count) eigenvectors of the largest eigenvalues, descending."""
    if points <= max(_DENSE, 2 * count + 2):
        columns = [product(unit) for unit in np.eye(points)]
        return np.asarray(np.linalg.eigh(np.stack(columns, axis=1))[1][:, : -count - 1 : -1])
    operator = LinearOperator((points, points), matvec=product, dtype=np.float64)
    start = generator.normal(size=points)
    room = min(points, max(4 * count, 40))
    return np.asarray(eigsh(operator, k=count, which="LA", ncv=room, tol=_TOLERANCE, v0=start)[1][:, ::-1])
