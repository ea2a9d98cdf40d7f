"""The neighbour graphs of one data set, each built once for all methods that use it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from sklearn.utils.validation import has_fit_parameter

from clustering.foundation.devices import resolve_device
from clustering.foundation.progress import Progress
from clustering.graphs.neighbours import NeighbourGraph, neighbours
from clustering.lengths import unit_rows
from clustering.number_of_clusters import NumberOfClusters, number_of_clusters


class SharedGraphs:
    """Neighbour graphs of the rows (N, D) of a data set, by the parameters of estimators."""

    def __init__(self, values: Any, progress: Progress) -> None:
        self._values, self._progress = values, progress
        self._built: dict[tuple[Any, ...], NeighbourGraph] = {}
        self._numbers: dict[tuple[Any, ...], NumberOfClusters] = {}

    def of(self, estimator: Any, device: str) -> NeighbourGraph | None:
        """Return the graph that an estimator would build on a device; None for an estimator without a graph."""
        wanted = estimator.get_params()
        if not has_fit_parameter(estimator, "graph") or "n_neighbors" not in wanted:
            return None
        k, place = wanted["n_neighbors"], resolve_device(device).type
        symmetry, normalize = wanted.get("symmetry", "average"), wanted.get("normalize")
        key = (k, symmetry, normalize, place)
        if key not in self._built:
            rows = torch.from_numpy(np.require(self._values, requirements="W")).to(place)
            rows = unit_rows(rows) if normalize == "l2" else rows
            with shares_of(self._progress, f"neighbours, k = {k}", rows.shape[0]) as done:
                self._built[key] = neighbours(rows, k, symmetry=symmetry, done=done)
        return self._built[key]

    def number(self, estimator: Any, seed: int) -> NumberOfClusters:
        """Return the number of clusters that is found in the rows as an estimator takes them."""
        key = estimator.get_params().get("normalize"), seed
        if key not in self._numbers:
            rows = torch.from_numpy(np.require(self._values, requirements="W"))
            self._numbers[key] = number_of_clusters(unit_rows(rows) if key[0] == "l2" else rows, seed)
        return self._numbers[key]


@contextmanager
def shares_of(progress: Progress, name: str, total: int) -> Iterator[Callable[[int, int], None]]:
    """Show a progress bar, and yield a function of finished and all work that advances it."""
    shown = 0
    with progress.track(name, total) as advance:

        def done(finished: int, of: int) -> None:
            nonlocal shown
            advance(total * finished // of - shown)
            shown = total * finished // of

        yield done
        done(1, 1)
