"""The small case of a fair clustering: its method at its first weights, on points with groups."""

import dataclasses
import tempfile
from pathlib import Path

import numpy as np

from clustering.foundation.errors import InputError
from clustering.foundation.progress import quiet
from clustering.foundation.streams import stream
from fairness.datasets.dataset import FairDataset
from runs.config.base import FILES
from runs.config.fair import FairConfig
from runs.record.exports.outcome import Numbers
from runs.stages.clustering.shared_graphs import SharedGraphs
from runs.stages.fair.stage import FairStage, trade_off_on

POINTS, DIMENSIONS, CLUSTERS = 60, 3, 5  # CLUSTERS: most clusters of random points
WEIGHTS, DEFAULT_WEIGHTS = 2, (0.0, 1.0)
STARTS = 3
SHARE_OF_GROUPS = {3: (0.5, 0.3, 0.2), 2: (0.6, 0.4)}


def fair_case(config: FairConfig) -> Numbers:
    """Return the numbers of the small case: on points of the run's data set if it needs no files, else on random ones
    with three groups, or two if the method takes no more.

    Raises:
        InputError: there is none, since these points do not suit the method.
    """
    starts = config.method.options.get("n_init")
    method = config.method.at({"n_init": min(STARTS, starts)}) if starts else config.method
    weights = (config.fairness_weight or DEFAULT_WEIGHTS)[:WEIGHTS]
    stage = FairStage.on(config.replace(seed=0, device="cpu", method=method, fairness_weight=weights), "")
    if not any(name in config.dataset.options for name in FILES):
        data = stage.source.read()
        rows = np.linspace(0, len(data.values) - 1, min(POINTS, len(data.values))).astype(int)
        groups = {name: np.asarray(values)[rows] for name, values in data.sensitive.items()}
        return _numbers(stage, FairDataset(data.values[rows], data.columns, groups))
    stage = dataclasses.replace(stage, clusters=min(stage.clusters, CLUSTERS))
    try:
        return _numbers(stage, _random(3))
    except InputError:
        return _numbers(stage, _random(2))


def _random(groups: int) -> FairDataset:
    """Normal points; those of the larger groups have a smaller first coordinate."""
    random = stream(0, "small case", "groups")
    values = random.standard_normal((POINTS, DIMENSIONS))
    places = np.argsort(np.argsort(values[:, 0] + random.standard_normal(POINTS))) / POINTS
    group = np.searchsorted(np.cumsum(SHARE_OF_GROUPS[groups])[:-1], places, side="right")
    return FairDataset(values, tuple("xyz"), {"group": np.array(list("abc"))[group]})


def _numbers(stage: FairStage, data: FairDataset) -> Numbers:
    with tempfile.TemporaryDirectory() as cache:
        found = trade_off_on(stage, data, SharedGraphs(data.values, Path(cache), quiet), quiet)
    last = [np.flatnonzero(found.history_step == step)[-1:] for step in range(len(found.weights))]
    minimised = found.history_objective[np.concatenate(last)]
    numbers = {
        "objective": (*found.objective, found.unfair_objective, *minimised),
        "soft_error": found.soft_error,
        "fairness_error": found.fairness_error,
        "balance": found.balance_mean,
    }
    return {name: tuple(float(value) for value in values if np.isfinite(value)) for name, values in numbers.items()}
