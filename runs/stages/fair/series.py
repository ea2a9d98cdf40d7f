"""Fair clusterings of one recipe over several seeds, and which of them are comparable."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fairness.trade_off import pareto_front, smallest_best
from runs.stages.fair.results import FairResult, Floats


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
        return np.asarray(self.values(name).mean(axis=0))

    def deviation(self, name: str) -> Floats:
        """Return the (W,) standard deviation over seeds; NaN for one seed."""
        found = self.values(name)
        return found.std(axis=0, ddof=1) if len(found) > 1 else np.full(found.shape[1], np.nan)

    def mean_of_whole(self, name: str) -> Floats:
        """Return the (W,) mean over the seeds without empty clusters at a weight; NaN if there is no such seed."""
        whole = np.isfinite(self.values("error_of_all"))
        sums = np.where(whole, self.values(name), 0.0).sum(axis=0)
        return np.where(whole.any(axis=0), sums / np.maximum(whole.sum(axis=0), 1), np.nan)

    @cached_property
    def chosen(self) -> int | None:
        """Index of the smallest weight with the least mean fairness error; None if all weights have empty clusters."""
        return smallest_best(self.weights, self.mean_of_whole("fairness_error"))

    @property
    def comparable(self) -> tuple[object, ...]:
        """Key of series with comparable objectives and errors: the objective, the rows and their graph, the number of
        clusters, and the groups with their target."""
        first, found, options = self.first, self.first.found, self.first.config.method.options
        graph = (options.get("n_neighbors"), options.get("symmetry", "average")) if first.kind == "ncut" else None
        groups = (*found.group_names.tolist(), *found.target.tolist())
        return (first.kind, first.n_clusters, repr(first.config.dataset), options.get("normalize"), graph, groups)


def series_of(results: Sequence[FairResult]) -> list[Series]:
    """Group results that differ only in their seed, in the order of the first result of each group."""
    found: list[list[FairResult]] = []
    for result in results:
        recipe, weights = result.config.replace(seed=0), result.found.weights
        for own in found:
            same = own[0].config.replace(seed=0) == recipe
            if same and np.allclose(own[0].found.weights, weights, equal_nan=True):
                own.append(result)
                break
        else:
            found.append([result])
    return [Series(tuple(own)) for own in found]


def fronts(series: Sequence[Series]) -> dict[int, set[int]]:
    """Return the weights on the Pareto front of all comparable series, by index of the series."""
    found: dict[int, set[int]] = {position: set() for position in range(len(series))}
    for key in dict.fromkeys(one.comparable for one in series):
        own = [position for position, one in enumerate(series) if one.comparable == key]
        places = [(position, step) for position in own for step in range(len(series[position].weights))]
        objectives = np.concatenate([series[position].mean_of_whole("objective") for position in own])
        errors = np.concatenate([series[position].mean_of_whole("fairness_error") for position in own])
        for position, step in (places[i] for i in pareto_front(objectives, errors)):
            found[position].add(step)
    return found
