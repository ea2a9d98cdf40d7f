"""Strategies on the same tasks: grouped before the evaluation, and compared when all results exist."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from clustering.foundation.errors import InputError, unknown
from fsl.evaluation.paired import Difference, Paired
from fsl.evaluation.scores import ClassScores
from runs.config.base import top_level
from runs.config.configs import EvaluateConfig
from runs.stages.results import Result
from runs.tables.grid import column_names, row_names

_NO_RESULT = ("seed", "audit", *(field.name for field in top_level(EvaluateConfig) if field.metadata["execution"]))


@dataclass(frozen=True, eq=False)
class Setting:
    """Strategies that share tasks, in one or several seeds."""

    name: str  # name that distinguishes it from other settings, such as "1-shot"
    # names of the compared strategies, with the values that differ between those of one name
    strategies: tuple[str, ...]
    reference: int  # index of the strategy with which the others are compared
    seeds: tuple[int, ...]  # the seeds; each has its own training and tasks
    # for each strategy, the indices of its configs, one per seed, in the list of all configs
    configs: tuple[tuple[int, ...], ...]


def settings(configs: Sequence[EvaluateConfig], reference: str | None = None) -> list[Setting]:
    """Group configs by the tasks that they share.

    Args:
        reference: name of a strategy, as in `Setting.strategies`, or without its values if no other strategy has
            that name; None: the first strategy.

    Raises:
        InputError: a strategy alone on its tasks, strategies with different seeds, an unknown or ambiguous reference.
    """
    rows = [
        (name, *_parts(config), config.seed, i)
        for i, (config, name) in enumerate(zip(configs, _setting_names(configs), strict=True))
    ]
    frame, found = pd.DataFrame(rows, columns=["name", "tasks", "rest", "seed", "config"]), []
    for _, own in frame.groupby(["name", "tasks"], sort=False):
        name = str(own["name"].iloc[0])
        own = own.drop_duplicates(["rest", "seed"], keep="last")
        table = own.pivot(index="rest", columns="seed", values="config").loc[own["rest"].unique()]
        firsts = [configs[i] for i in own.drop_duplicates("rest")["config"]]
        shown = row_names(firsts, apart=(*_about_tasks(firsts[0]), *_NO_RESULT))
        if len(shown) < 2:
            raise InputError(
                f"only {shown[0]} is evaluated on the {name} tasks, and strategies are compared on the same tasks; "
                "give several, as in strategy=simpleshot,laplacianshot"
            )
        if table.isna().any(axis=None):
            seeds = [", ".join(map(str, row.dropna().index)) for _, row in table.iterrows()]
            spelled = "; ".join(f"{strategy}: {of}" for strategy, of in zip(shown, seeds, strict=True))
            raise InputError(
                f"{name}: each seed has tasks of its own, and these are not the same ({spelled}); give one seed=LIST "
                "for all strategies"
            )
        indices = tuple(map(tuple, table.to_numpy().astype(int).tolist()))
        found.append(
            Setting(name, tuple(shown), _reference(shown, reference, name), tuple(map(int, table.columns)), indices)
        )
    return found


@dataclass(frozen=True, eq=False)
class Comparison:
    """The strategies of a setting, compared task by task.

    Raises:
        InputError: results on different numbers of tasks.
    """

    setting: Setting  # the strategies and the reference
    results: tuple[tuple[Result, ...], ...]  # for each strategy, one result per seed

    def __post_init__(self) -> None:
        for of_seed in zip(*self.results, strict=True):
            if len({len(result.by_unit) for result in of_seed}) > 1:
                raise InputError(f"{self.setting.name}: these runs are not on the same tasks; evaluate with --force")

    @classmethod
    def of(cls, setting: Setting, results: Sequence[Result]) -> "Comparison":
        """Return the comparison from the results of all configs, in their order."""
        return cls(setting, tuple(tuple(results[i] for i in indices) for indices in setting.configs))

    @property
    def units(self) -> str:
        """The unit of resampling: "tasks", or the "queries" if there is one task."""
        return self.results[0][0].units

    @property
    def tasks(self) -> int:
        """Number of tasks of each seed."""
        return len(self.results[0][0].accuracies)

    def accuracy(self, strategy: int) -> float:
        """Return the mean accuracy over seeds, in [0, 1]."""
        return float(np.mean([result.accuracy for result in self.results[strategy]]))

    def per_class(self, strategy: int) -> float:
        """Return the mean over seeds of the mean accuracy over classes, in [0, 1]."""
        return float(np.mean([result.classes.mean for result in self.results[strategy]]))

    def difference(self, first: int, second: int) -> Difference:
        """Return the difference of two strategies, given by their indices."""
        return self._paired.difference(first, second)

    def against_reference(self) -> Iterator[tuple[str, Difference]]:
        """Yield name and difference from the reference of every other strategy."""
        for i, name in enumerate(self.setting.strategies):
            if i != self.setting.reference:
                yield name, self.difference(i, self.setting.reference)

    def by_class(self, strategy: int) -> NDArray[np.float64]:
        """Return the (C,) accuracy of a strategy on each class over all seeds, NaN for classes without queries."""
        right = np.sum([result.classes.right for result in self.results[strategy]], axis=0)
        return ClassScores(self.asked, right).accuracies

    @property
    def asked(self) -> NDArray[np.int64]:
        """(C,) number of queries of each class over all seeds, equal for all strategies."""
        return np.asarray(np.sum([result.classes.asked for result in self.results[0]], axis=0))

    @property
    def class_names(self) -> tuple[str, ...]:
        return self.results[0][0].class_names

    @cached_property
    def _paired(self) -> Paired:
        by_seed = zip(*self.results, strict=True)
        return Paired([np.stack([result.by_unit for result in of_seed], axis=1) for of_seed in by_seed])


def _about_tasks(config: EvaluateConfig) -> tuple[str, ...]:
    """Return the keys and groups that, with the seed, determine the tasks.

    With a target, the benchmark of the training does not determine them, so networks of several benchmarks can be
    compared.
    """
    images = "target" if config.crosses else "benchmark" if config.features is None else "features"
    return (images, "sampler", "tasks", "split")


def _parts(config: EvaluateConfig) -> tuple[str, str]:
    """Return the values that determine the tasks, and those of the strategy; both exclude the seed."""
    keys = {key: value for key, value in config.result_keys().items() if key not in ("seed", "audit")}
    for name in ("features", "prompt"):
        keys |= {} if getattr(config, name) is None else {name: getattr(config, name)}
    spelled = {key: f"{key}={keys[key]}" for key in sorted(keys)}
    apart = [key for key in spelled if key.partition(".")[0] in _about_tasks(config)]
    return " ".join(spelled[key] for key in apart), " ".join(spelled[key] for key in spelled if key not in apart)


def _setting_names(configs: Sequence[EvaluateConfig]) -> list[str]:
    """Return names that distinguish the tasks of each config: the kind of task, and other keys if they differ."""
    parts = []
    for config in configs:
        apart = [name for name in _about_tasks(config) if name != "sampler"]
        parts.append({key: str(value) for key, value in config.flat().items() if key.partition(".")[0] in apart})
    keys = dict.fromkeys(key for part in parts for key in part)
    differ = [key for key in keys if len({part.get(key) for part in parts}) > 1]
    return [
        " ".join([*(f"{key}={part[key]}" for key in differ if key in part), column])
        for part, column in zip(parts, column_names(configs), strict=True)
    ]


def _reference(names: Sequence[str], wanted: str | None, tasks: str) -> int:
    """Return the index of the reference in `names`."""
    if wanted is None or wanted in names:
        return 0 if wanted is None else names.index(wanted)
    alike = [name for name in names if name.partition(" ")[0] == wanted]
    if len(alike) > 1:
        options = " or ".join(f'reference="{name}"' for name in alike)
        raise InputError(f"reference={wanted} is one of several on the {tasks} tasks; give {options}")
    if not alike:
        raise unknown(f"reference on the {tasks} tasks", wanted, names)
    return names.index(alike[0])
