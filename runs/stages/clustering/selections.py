"""Settings among which labels select, for the column "selected by labels": a file of `configs/selection/`, or your own.

trials: 40
share: 0.1                                  # share of the points whose labels select
slk: {weight: [0.5, 1.0, 2.0]}              # values for a method or its plug-in; all combinations are tried
"""

import itertools
from typing import Annotated, Any

from clustering.evaluation.protocol import Selection
from clustering.foundation.errors import InputError, unknown
from clustering.foundation.parameters import Within, mismatch
from runs.config import groups
from runs.config.cluster import ClusterConfig
from runs.config.source import freeze
from runs.config.yaml_files import read

FORM = {"trials": Annotated[int, Within(1, 10_000)], "share": Annotated[float, Within(0, 1)]}


def selection_for(config: ClusterConfig) -> Selection | None:
    """Return the selection by labels; None if labels or pairs are given to the method, or it learns features."""
    informed = config.asked_labels() is not None or config.links is not None or config.coarse is not None
    return None if config.learns or informed else selection_of(config)


def selection_of(config: ClusterConfig) -> Selection | None:
    """Return the settings among which labels select for the method of a config; None with selection=null."""
    if config.selection is None:
        return None
    path = groups.file("selection", config.selection)
    content: dict[str, Any] = {"trials": 40, "share": 0.1, **read(path)}
    for name, hint in FORM.items():
        if problem := mismatch(content[name], hint):
            raise InputError(f"{path}: {name} must be {problem}, not {content[name]!r}")
    name, options = config.method.name, config.method.options
    grid = content.get(name, content.get(config.method.plugin)) or {}
    if not isinstance(grid, dict) or not all(isinstance(values, list) and values for values in grid.values()):
        raise InputError(f"{path}: {name} must map parameters to lists of values, as in {{weight: [0.5, 1.0]}}")
    for parameter in grid:
        if parameter not in options:
            raise InputError(f"{path}: {name}: {unknown('parameter', parameter, options)}")
    points = [dict(zip(grid, freeze(values), strict=True)) for values in itertools.product(*grid.values())]
    if len(points) > content["trials"]:
        raise InputError(f"{path}: {name} has {len(points)} settings, more than its trials; raise trials")
    chosen = [{} if all(options[key] == value for key, value in point.items()) else point for point in points]
    return Selection(content["trials"], float(content["share"]), tuple(chosen))
