"""Settings among which labels select, for the column "selected by labels": a file of `configs/selection/`, or your own.

trials: 40
share: 0.1                                  # share of the points whose labels select
slk: {weight: [0.5, 1.0, 2.0]}              # values for a method or its plug-in; all combinations are tried
"""

import itertools
from pathlib import Path
from typing import Any

from clustering.evaluation.protocol import Selection
from clustering.foundation.errors import InputError, unknown
from clustering.foundation.parameters import AtLeast, Within
from runs.config import groups
from runs.config.cluster import ClusterConfig
from runs.config.overrides import is_number
from runs.config.source import freeze
from runs.config.yaml_files import read

GROUP = "selection"  # folder of configs/


def selection_of(config: ClusterConfig) -> Selection | None:
    """Return the settings among which labels select for the method of a config; None with selection=null.

    Raises:
        InputError: the file does not exist, or a value is invalid; the message names the file and the key.
    """
    if config.selection is None:
        return None
    path = Path(config.selection)
    if path.suffix not in (".yaml", ".yml"):
        if config.selection not in groups.names(GROUP):
            raise unknown(GROUP, config.selection, [*groups.names(GROUP), "FILE.yaml"])
        path = groups.folder() / GROUP / f"{config.selection}.yaml"
    content = read(path)
    trials, share = content.get("trials", 40), content.get("share", 0.1)
    for name, value, is_integer, bound in (
        ("trials", trials, True, Within(1, 10_000)),
        ("share", share, False, Within(0, 1)),
    ):
        if not is_number(value) or (is_integer and not isinstance(value, int)) or not bound.holds(value):
            raise InputError(
                f"{path}: {name} must be {'an integer' if is_integer else 'a number'} {bound}, not {value!r}"
            )
    grid = content.get(config.method.name, content.get(config.method.plugin)) or {}
    settings = [_given(config, point) for point in _points(config, grid, path)]
    if not AtLeast(len(settings)).holds(trials):
        raise InputError(
            f"{path}: {config.method.name} has {len(settings)} settings, but only {trials} trials; increase trials"
        )
    return Selection(trials, float(share), tuple(settings))


def _points(config: ClusterConfig, grid: Any, path: Path) -> list[dict[str, Any]]:
    """Return all combinations of the values of a method."""
    place = f"{path}: {config.method.name}"
    if not isinstance(grid, dict) or not all(isinstance(values, list) and values for values in grid.values()):
        raise InputError(f"{place} must map parameters to lists of values, as in {{weight: [0.5, 1.0]}}")
    for name in grid:
        if name not in config.method.options:
            raise InputError(f"{place}: {unknown('parameter', name, sorted(config.method.options))}")
    frozen = [[freeze(value) for value in values] for values in grid.values()]
    return [dict(zip(grid, values, strict=True)) for values in itertools.product(*frozen)]


def _given(config: ClusterConfig, point: dict[str, Any]) -> dict[str, Any]:
    """Return the point, or {} if the config already has these values."""
    return {} if all(config.method.options[name] == value for name, value in point.items()) else point
