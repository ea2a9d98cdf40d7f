"""Fair clusterings of one recipe over several seeds, and which of them are comparable."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fairness.trade_off import pareto_front, smallest_best
from runs.stages.fair.results import FairResult

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Series:
    """A method with its parameters on a data set: T results at the same W weights with different seeds."""

    results: tuple[FairResult, ...]

    @property
    def first(self) -> FairResult:
        return self.results[0]

    @property
    def weights(self) -> Floats:
        """(W,) weights, NaN for a method without a weight."""
        return self.first.found.weights

    def values(self, name: str) -> Floats:
        """Return the (T, W) values of an attribute of `TradeOff`, such as "objective"."""
        return np.array([getattr(result.found, name) for result in self.results], dtype=np.float64)

    def mean(self, name: str) -> Floats:
        """Return the (W,) mean over seeds."""
        found: Floats = self.values(name).mean(axis=0)
        return found

    def deviation(self, name: str) -> Floats:
        """Return the (W,) standard deviation over seeds; NaN for one seed."""
        found = self.values(name)
        return found.std(axis=0, ddof=1) if len(found) > 1 else np.full(found.shape[1], np.nan)

    def mean_of_whole(self, name: str) -> Floats:
        """Return the (W,) mean over the seeds without empty clusters at a weight; NaN if there is no such seed."""
        whole = np.isfinite(self.values("error_of_all"))
        sums = np.where(whole, self.values(name), 0.0).sum(axis=0)
        found: Floats = np.where(whole.any(axis=0), sums / np.maximum(whole.sum(axis=0), 1), np.nan)
        return found

    @cached_property
    def chosen(self) -> int | None:
        """Index of the smallest weight with the least mean fairness error; None if all weights have empty clusters."""
        return smallest_best(self.weights, self.mean_of_whole("fairness_error"))

    @property
    def comparable(self) -> tuple[object, ...]:
        """Key of series with comparable objectives and errors: the objective, the rows and their graph, the number of
        clusters, and the groups with their target."""
        config, found = self.first.config, self.first.found
        options = config.method.options
        cut = self.first.kind == "ncut"
        graph = (options.get("n_neighbors"), options.get("symmetry", "average")) if cut else None
        groups = (*found.group_names.tolist(), *found.target.tolist())
        return (self.first.kind, self.first.n_clusters, repr(config.dataset), options.get("normalize"), graph, groups)


def series_of(results: Sequence[FairResult]) -> list[Series]:
    """Group results that differ only in their seed, in the order of the first result of each group."""
    found: list[list[FairResult]] = []
    for result in results:
        recipe = result.config.replace(seed=0)
        alike = [
            own
            for own in found
            if own[0].config.replace(seed=0) == recipe
            and np.allclose(own[0].found.weights, result.found.weights, equal_nan=True)
        ]
        if alike:
            alike[0].append(result)
        else:
            found.append([result])
    return [Series(tuple(own)) for own in found]


def fronts(series: Sequence[Series]) -> dict[int, set[int]]:
    """Return the weights on the Pareto front of all comparable series, by index of the series."""
    found: dict[int, set[int]] = {position: set() for position in range(len(series))}
    for key in dict.fromkeys(one.comparable for one in series):
        points = [
            (position, step)
            for position, one in enumerate(series)
            if one.comparable == key
            for step in range(len(one.weights))
        ]
        objectives = [series[position].mean_of_whole("objective")[step] for position, step in points]
        errors = [series[position].mean_of_whole("fairness_error")[step] for position, step in points]
        for i in pareto_front(objectives, errors):
            position, step = points[i]
            found[position].add(step)
    return found
