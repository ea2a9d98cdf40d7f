"""Normalised cuts of a graph: labels from eigenvectors, improved by moves of single points."""

import warnings
from typing import Any, NamedTuple

import numpy as np
import sklearn.cluster
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components
from sklearn.exceptions import ConvergenceWarning

from clustering.foundation.errors import InputError
from clustering.foundation.streams import stream
from clustering.graphs.neighbours import nearest_to
from clustering.graphs.point_moves import single_moves
from clustering.graphs.spectrum import leading_eigenvectors
from clustering.optimiser.rows import Rows

Labels = NDArray[np.int64]
Embedding = NDArray[np.float64]


class Relaxed(NamedTuple):
    """Labels of T starts.

    Attributes:
        labels: (T, N).
        embedding: (N, K) rows of the eigenvectors, scaled to unit norm; 0 for points without arcs.
        rounds: number of rounds of each start, including moves.
        components: number of connected components, without isolated points. If there are more than K, and no
            regularization, they are merged into clusters of similar volume, with a single start and no eigenvectors.
    """

    labels: Labels
    embedding: Embedding
    rounds: list[int]
    components: int


def relaxed_cut(graph: csr_array, rows: Rows, model: Any, seed: int, regularization: float = 0.0) -> Relaxed:
    """Spectral clustering of the points from several starts, each improved by moves of single points.

    Args:
        graph: (N, N) symmetric W >= 0.
        rows: N points; a point without arcs takes the label of the nearest point that has arcs.
        model: has n_clusters K, n_init T, and max_iter, the maximum number of rounds of K-means, and of the moves
            after it.
        seed: seed of the starts.
        regularization: t >= 0, see `leading_eigenvectors`.

    Raises:
        InputError: there are fewer points with arcs than clusters.
    """
    clusters, max_rounds = int(model.n_clusters), int(model.max_iter)
    points = graph.shape[0]
    linked = np.flatnonzero(graph.sum(axis=1) > 0)
    if len(linked) < clusters and clusters > 1:
        raise InputError(
            f"{len(linked)} points have arcs, too few for {clusters} clusters; pass a graph with more arcs"
        )
    part = graph if len(linked) == points else graph[linked][:, linked]
    components, component = connected_components(part, directed=False)
    if clusters == 1 or (components > clusters and regularization == 0):
        labels = joined(np.bincount(component, part.sum(axis=1)).astype(np.float64), clusters)[component]
        candidates, embedding, rounds = labels[None], np.eye(clusters)[labels], [1]
    else:
        vectors = leading_eigenvectors(part, clusters, regularization, stream(seed, "eigenvectors"))
        embedding = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), np.finfo(np.float64).tiny)
        spread = regularization * float(part.sum()) / len(linked)
        degrees = part.sum(axis=1) + spread
        spectral = vectors / np.sqrt(degrees)[:, None]
        labels_of_rounds, rounds = [], []
        for trial in range(model.n_init):
            labels, first = k_means(spectral, stream(seed, "kmeans", trial), max_rounds)
            moved = single_moves(part, degrees, labels, clusters, max_rounds, constant=spread / len(linked))
            labels_of_rounds.append(moved.labels)
            rounds.append(first + moved.rounds)
        candidates = np.stack(labels_of_rounds)
    if len(linked) < points:
        candidates, embedding = _spread(candidates, embedding, linked, rows)
    return Relaxed(candidates, embedding, rounds, int(components))


def _spread(labels: Labels, embedding: Embedding, linked: NDArray[np.intp], rows: Rows) -> tuple[Labels, Embedding]:
    """Labels and embedding of all points; a point without arcs takes the label of the nearest point that has arcs."""
    values = rows.values
    isolated = np.setdiff1d(np.arange(len(values)), linked)
    all_labels = np.zeros((len(labels), len(values)), dtype=np.int64)
    vectors = np.zeros((len(values), embedding.shape[1]))
    all_labels[:, linked], vectors[linked] = labels, embedding
    if len(linked):
        near = nearest_to(values[linked], values[isolated], 1)[:, 0].cpu().numpy()
        all_labels[:, isolated] = all_labels[:, linked[near]]
    return all_labels, vectors


def joined(volumes: NDArray[np.float64], clusters: int) -> Labels:
    """(c,) cluster of each component, assigned by descending volume to the cluster with the lowest volume so far."""
    labels = np.zeros(len(volumes), dtype=np.int64)
    filled = np.zeros(clusters)
    for component in np.argsort(-volumes, kind="stable"):
        labels[component] = filled.argmin()
        filled[labels[component]] += volumes[component]
    return labels


def k_means(embedding: Embedding, generator: np.random.Generator, max_rounds: int) -> tuple[Labels, int]:
    """(n,) labels of the rows of an embedding (n, K) by one start of K-means, and the number of rounds."""
    state = int(generator.integers(2**31))
    model = sklearn.cluster.KMeans(embedding.shape[1], n_init=1, max_iter=max_rounds, random_state=state)
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", ConvergenceWarning
        )  # fewer distinct rows than clusters; empty ones are filled later
        model.fit(embedding)
    return model.labels_.astype(np.int64), int(model.n_iter_)
