"""The neighbour graphs of one data set, each built once for all methods that use it."""

from typing import Any

import numpy as np
import torch
from scipy import sparse
from sklearn.preprocessing import normalize as unit_sparse_rows
from sklearn.utils.validation import has_fit_parameter

from clustering.foundation.progress import Progress
from clustering.graphs.neighbours import NeighbourGraph, neighbours
from clustering.lengths import unit_rows
from fsl.machine import resolve_device


class SharedGraphs:
    """Neighbour graphs of the rows of a data set, by the parameters of estimators.

    Args:
        values: (N, D) float32.
    """

    def __init__(self, values: Any, progress: Progress) -> None:
        self._values = values
        self._progress = progress
        self._built: dict[tuple[Any, ...], NeighbourGraph] = {}

    def of(self, estimator: Any, device: str) -> NeighbourGraph | None:
        """Return the graph that an estimator would build; None for an estimator without a graph.

        Args:
            device: device on which the graph is built, as in a config.
        """
        wanted = estimator.get_params()
        if not has_fit_parameter(estimator, "graph") or "n_neighbors" not in wanted:
            return None
        key = (
            wanted["n_neighbors"],
            wanted.get("symmetry", "average"),
            wanted.get("normalize"),
            resolve_device(device).type,
        )
        if key not in self._built:
            self._built[key] = self._build(*key)
        return self._built[key]

    def _build(self, k: int, symmetry: Any, normalize: str | None, device: str) -> NeighbourGraph:
        rows: Any = self._values
        if sparse.issparse(rows):
            rows = rows if normalize is None else unit_sparse_rows(rows)
        else:
            rows = torch.from_numpy(np.require(rows, requirements="W")).to(device)
            if normalize == "l2":
                rows = unit_rows(rows)
        before, points = 0, rows.shape[0]
        with self._progress.track(f"neighbours, k = {k}", points) as advance:

            def done(finished: int, total: int) -> None:
                nonlocal before
                advance(finished - before)
                before = finished

            found = neighbours(rows, k, symmetry=symmetry, done=done)
            advance(points - before)
        return found
