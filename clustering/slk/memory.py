"""Memory requirements of SLK, by the shape of its points."""

import math
from typing import Any

import numpy as np

from clustering.foundation.memory import require
from clustering.graphs.neighbours import room
from clustering.graphs.row_search import by_shape
from clustering.optimiser.trials import TOGETHER
from clustering.slk.fit import Parameters, is_custom_graph, races
from clustering.slk.race import sampled

_ARRAYS = 12
"""Maximum number of N x K arrays that one trial uses at the same time."""

_DRAWS = 8
"""Number of arrays of length N for drawing the seeds of a trial, including float64 sums, besides one per draw."""


def needed(
    X: Any, clusters: int, *, neighbours: int | None, normalised: bool, drawn: int, together: int, kept: int
) -> dict[str, float]:
    """Bytes of all arrays that exist at the same time besides X, by name.

    Args:
        X: (N, D), any object with a shape; float32 unless its dtype is float64.
        clusters: K.
        neighbours: k of the graph to build; None if the graph is given.
        normalised: whether rows are normalised.
        drawn: number of starts whose seeds are drawn together from all points; if they race, each keeps its labels.
        together: number of starts that process all points together.
        kept: number of results that stay in memory, each with its assignments.
    """
    points, columns = X.shape
    kind = str(getattr(X, "dtypes", getattr(X, "dtype", "")))
    size = 8 if "float64" in kind else 4
    sparse = hasattr(X, "nnz")
    as_it_is = isinstance(X, np.ndarray) and kind in ("float32", "float64") and X.flags.c_contiguous
    copies = size * (2 * X.nnz if sparse else points * columns) * ((not as_it_is) + normalised)
    column = size * points
    working = column * max(clusters * (_ARRAYS * together + kept), drawn * (_DRAWS + math.log(max(1, clusters))))
    graph = 0
    if neighbours is not None:
        building = room(points, columns, neighbours, "sparse" if sparse else by_shape(points, columns))
        graph = max(16 * points * neighbours, building - working)  # it exists before seeds are drawn
    labels = 8 * points * drawn if drawn > together else 0
    return {"copies of the rows": copies, "the graph": graph, "seeds and assignments": working, "labels": labels}


def require_for_fit(model: Parameters, X: Any, graph: Any, *, known: bool) -> None:
    """Raise if memory is insufficient for `fit`.

    Starts race on all points if labels are `known`, a custom graph is passed, or rows are sparse.

    Raises:
        InputError: less memory is free than the fit needs.
    """
    points = getattr(X, "shape", (1,))[0]
    if races(model):
        all_points = known or is_custom_graph(graph) or hasattr(X, "nnz") or sampled(points, model.n_clusters) == points
        drawn, together = model.n_init if all_points else 1, 1
    else:
        drawn = together = model.n_init
    _require(model, X, graph, drawn=drawn, together=together, kept=1)


def require_for_trials(model: Parameters, X: Any, graph: Any, *, trials: int) -> None:
    """Raise if memory is insufficient for this number of `SLK.trials`, run in batches as `trials` does."""
    shape = getattr(X, "shape", (1,))
    together = max(1, min(trials, TOGETHER // max(1, shape[0] * model.n_clusters)))
    _require(model, X, graph, drawn=1, together=together, kept=trials)


def _require(model: Parameters, X: Any, graph: Any, **sizes: int) -> None:
    """Check the memory. Data of unknown shape is taken to be small, and GPUs report insufficient memory themselves."""
    if len(getattr(X, "shape", ())) != 2 or model.device == "cuda":
        return
    neighbours = None if graph is not None else model.n_neighbors
    parts = needed(X, model.n_clusters, neighbours=neighbours, normalised=model.normalize is not None, **sizes)
    remedy = "use fewer rows (a sample), fewer starts (n_init), or float32"
    require(f"SLK of {X.shape[0]:,} x {X.shape[1]:,} values with {model.n_clusters} clusters", parts, remedy)
