"""Relaxation of the normalised cut among fair indicators (Kleindessner, Samadi, Awasthi and Morgenstern 2019)."""

import numpy as np
import sklearn.cluster
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components
from torch import Tensor

from clustering.foundation.errors import InputError
from clustering.graphs.knn import nearest_among
from clustering.graphs.spectrum import leading_eigenvectors
from fairness.groups import Groups


def fair_embedding(
    graph: csr_array, groups: Groups, count: int, generator: np.random.Generator
) -> tuple[NDArray[np.float64], bool]:
    """Vectors H (N, count) of minimum relaxed cut with F^T H = 0, F the group indicators minus the group shares.

    Rows of points without arcs are 0.

    Args:
        graph: (N, N) symmetric W >= 0.
        groups: groups of the points.
        count: number of vectors, K.
        generator: random generator of the initial vector.

    Returns:
        The vectors, and whether they are arbitrary because more than `count` vectors have cost 0.

    Raises:
        InputError: fewer than K points have arcs.
    """
    embedding = np.zeros((graph.shape[0], count))
    linked = linked_points(graph)
    if len(linked) < count:
        raise InputError(f"{len(linked)} points have arcs, too few for {count} clusters; pass a graph with more arcs")
    part = graph if len(linked) == len(embedding) else graph[linked][:, linked]
    inside = groups.membership[groups.cells[linked]]
    excess = inside - inside.mean(axis=0)
    scale = part.sum(axis=1) ** -0.5
    components, _ = connected_components(part, directed=False)
    vectors = leading_eigenvectors(part, count, 0.0, generator, orthogonal_to=scale[:, None] * excess)
    embedding[linked] = scale[:, None] * vectors
    return embedding, components - np.linalg.matrix_rank(excess) > count


def embedded_labels(
    embedding: NDArray[np.float64],
    graph: csr_array,
    rows: Tensor,
    clusters: int,
    starts: int,
    generator: np.random.Generator,
) -> NDArray[np.int64]:
    """(N,) labels by K-means of the embedding (N, K), the best of several starts.

    A point without arcs takes the label of the nearest point, by rows (N, D), that has arcs.
    """
    labels = np.zeros(len(embedding), dtype=np.int64)
    if clusters == 1:
        return labels
    linked = linked_points(graph)
    means = sklearn.cluster.KMeans(clusters, n_init=starts, random_state=int(generator.integers(2**31)))
    labels[linked] = means.fit_predict(embedding[linked])
    if len(linked) < len(labels):
        isolated = np.setdiff1d(np.arange(len(labels)), linked)
        near = nearest_among(rows[linked], rows[isolated], 1)[:, 0].cpu().numpy()
        labels[isolated] = labels[linked[near]]
    return labels


def linked_points(graph: csr_array) -> NDArray[np.intp]:
    """Indices of the points that have arcs."""
    return np.flatnonzero(graph.sum(axis=1) > 0)
