"""Strategies on the same tasks, laid out before anything is evaluated and compared when all is there."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from clustering.foundation.errors import InputError, unknown
from fsl.evaluation.paired import Difference, Paired
from fsl.evaluation.scores import ClassScores
from runs.config.configs import EvaluateConfig, top_level
from runs.stages.results import Result
from runs.tables.grid import column_names, row_names

_NO_RESULT = ("seed", "audit", *(field.name for field in top_level(EvaluateConfig) if field.metadata["execution"]))


@dataclass(frozen=True, eq=False)
class Setting:
    """Strategies that share tasks, in as many seeds as they were asked for.

    Attributes:
        name: what tells it from other settings, such as "1-shot".
        strategies: what is compared: strategies by name, with the values that differ between those of one name.
        reference: the index of the strategy that the others are held against.
        seeds: each of its own training and tasks.
        configs: for each strategy, where its configs of these seeds stand in the list of all.
    """

    name: str
    strategies: tuple[str, ...]
    reference: int
    seeds: tuple[int, ...]
    configs: tuple[tuple[int, ...], ...]


def settings(configs: Sequence[EvaluateConfig], reference: str | None = None) -> list[Setting]:
    """Configs by the tasks that they share.

    Args:
        reference: name of a strategy, as in `Setting.strategies`, or without its values where it is the only one of
            that name; None takes the first.

    Raises:
        InputError: a strategy alone on its tasks, strategies with different seeds, an unknown or ambiguous reference.
    """
    grouped: dict[tuple[str, str], dict[str, dict[int, int]]] = {}
    for i, (config, name) in enumerate(zip(configs, _setting_names(configs), strict=True)):
        tasks, rest = _parts(config)
        grouped.setdefault((name, tasks), {}).setdefault(rest, {})[config.seed] = i
    found = []
    for (tasks, _), by_strategy in grouped.items():
        one_of_each = [configs[next(iter(by_seed.values()))] for by_seed in by_strategy.values()]
        shown = row_names(one_of_each, apart=(*_about_tasks(one_of_each[0]), *_NO_RESULT))
        seeds = [sorted(by_seed) for by_seed in by_strategy.values()]
        if len(shown) < 2:
            raise InputError(
                f"only {shown[0]} is evaluated on the {tasks} tasks, and strategies are compared on the same tasks; "
                "give several, as in strategy=simpleshot,laplacianshot"
            )
        if any(other != seeds[0] for other in seeds):
            spelled = "; ".join(f"{name}: {', '.join(map(str, of))}" for name, of in zip(shown, seeds, strict=True))
            raise InputError(
                f"{tasks}: each seed has tasks of its own, and these are not the same ({spelled}); give one seed=LIST "
                "for all strategies"
            )
        indices = tuple(tuple(by_seed[seed] for seed in sorted(by_seed)) for by_seed in by_strategy.values())
        found.append(Setting(tasks, tuple(shown), _reference(shown, reference, tasks), tuple(seeds[0]), indices))
    return found


@dataclass(frozen=True, eq=False)
class Comparison:
    """The strategies of a setting, compared task by task.

    Attributes:
        setting: who is compared with whom.
        results: for each strategy, one result a seed.

    Raises:
        InputError: results on different numbers of tasks.
    """

    setting: Setting
    results: tuple[tuple[Result, ...], ...]

    def __post_init__(self) -> None:
        for of_seed in zip(*self.results, strict=True):
            if len({len(result.by_unit) for result in of_seed}) > 1:
                raise InputError(f"{self.setting.name}: these runs are not on the same tasks; evaluate with --force")

    @classmethod
    def of(cls, setting: Setting, results: Sequence[Result]) -> "Comparison":
        """From the results of all configs, in their order."""
        return cls(setting, tuple(tuple(results[i] for i in indices) for indices in setting.configs))

    @property
    def units(self) -> str:
        """What is resampled: "tasks", or the "queries" of the only one."""
        return self.results[0][0].units

    @property
    def tasks(self) -> int:
        """Of each seed."""
        return len(self.results[0][0].accuracies)

    def accuracy(self, strategy: int) -> float:
        """Mean over seeds, a fraction."""
        return float(np.mean([result.accuracy for result in self.results[strategy]]))

    def per_class(self, strategy: int) -> float:
        """Mean over seeds of the mean over classes, a fraction."""
        return float(np.mean([result.classes.mean for result in self.results[strategy]]))

    def difference(self, first: int, second: int) -> Difference:
        """Of two strategies by their indices."""
        return self._paired.difference(first, second)

    def against_reference(self) -> Iterator[tuple[str, Difference]]:
        """Every other strategy by name, less the reference."""
        for i, name in enumerate(self.setting.strategies):
            if i != self.setting.reference:
                yield name, self.difference(i, self.setting.reference)

    def by_class(self, strategy: int) -> NDArray[np.float64]:
        """(C,) accuracy of a strategy on each class of the split over all seeds, NaN where none of it was asked."""
        asked = self.asked
        right = np.sum([result.classes.right for result in self.results[strategy]], axis=0)
        return ClassScores(asked, right).accuracies

    @property
    def asked(self) -> NDArray[np.int64]:
        """(C,) queries of each class over all seeds, the same for all strategies."""
        return np.asarray(np.sum([result.classes.asked for result in self.results[0]], axis=0))

    @property
    def class_names(self) -> tuple[str, ...]:
        return self.results[0][0].class_names

    @cached_property
    def _paired(self) -> Paired:
        by_seed = zip(*self.results, strict=True)
        return Paired([np.stack([result.by_unit for result in of_seed], axis=1) for of_seed in by_seed])


def _about_tasks(config: EvaluateConfig) -> tuple[str, ...]:
    """Keys and groups that say, with the seed, which tasks are drawn: from the benchmark, or from another one that
    networks of several benchmarks may be tried on."""
    images = "target" if config.crosses else "benchmark" if config.features is None else "features"
    return (images, "sampler", "tasks", "task_seed", "split")


def _parts(config: EvaluateConfig) -> tuple[str, str]:
    """What a config says about its tasks, and about the strategy; the seed is in neither."""
    keys = {key: value for key, value in config.result_keys().items() if key not in ("seed", "audit")}
    keys |= {} if config.features is None else {"features": config.features}
    keys |= {} if config.task_seed is None else {"task_seed": config.task_seed}  # one series, whatever the seed
    apart = _about_tasks(config)
    about_tasks = {key: value for key, value in keys.items() if key.partition(".")[0] in apart}
    return _spelled(about_tasks), _spelled({key: value for key, value in keys.items() if key not in about_tasks})


def _spelled(keys: Mapping[str, object]) -> str:
    return " ".join(f"{key}={keys[key]}" for key in sorted(keys))


def _setting_names(configs: Sequence[EvaluateConfig]) -> list[str]:
    """What tells the tasks of each config from those of others: what is drawn, and other keys where they differ."""
    columns = column_names(configs)
    parts = []
    for config in configs:
        apart = [name for name in _about_tasks(config) if name != "sampler"]
        parts.append({key: str(value) for key, value in config.flat().items() if key.partition(".")[0] in apart})
    differ = [key for part in parts for key in part if len({other.get(key) for other in parts}) > 1]
    return [
        " ".join([*(f"{key}={part[key]}" for key in dict.fromkeys(differ) if key in part), column])
        for part, column in zip(parts, columns, strict=True)
    ]


def _reference(names: Sequence[str], wanted: str | None, tasks: str) -> int:
    """The index of the reference among these."""
    if wanted is None:
        return 0
    if wanted in names:
        return names.index(wanted)
    alike = [name for name in names if name.partition(" ")[0] == wanted]
    if len(alike) == 1:
        return names.index(alike[0])
    if alike:
        options = " or ".join(f'reference="{name}"' for name in alike)
        raise InputError(f"reference={wanted} is one of several on the {tasks} tasks; give {options}")
    raise unknown(f"reference on the {tasks} tasks", wanted, names)
