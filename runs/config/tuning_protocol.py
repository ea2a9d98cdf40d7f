"""Tuning protocols: the steps, classes and values with which parameters are chosen.

A protocol is a file of `configs/tuning/`, or a file of your own:

    tasks: 500                       # number of tasks of a step, unless the step sets its own
    laplacianshot:                   # a strategy and its presets, with its steps in order
      - {split: base, grid: {neighbours: [3, 5, 10]}, at: {weight: 1.0}}
      - {split: validation, grid: {weight: [0.1, 0.3, 0.7]}}

A step tries all combinations of its grid on the same tasks and keeps the best. `at` fixes a field that a later step
chooses. A preset with an empty list is not tuned, even if its strategy is. If the user gives several values of a field
that no step names, the field joins the last step.
"""

import pathlib
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from clustering.foundation.errors import InputError, unknown
from runs.config import groups, overrides
from runs.config.conversion import convert
from runs.config.groups import Choice
from runs.config.overrides import Grid, Value
from runs.config.source import Described
from runs.config.yaml_files import is_yaml, read

TASKS = 500
RULE = "highest mean accuracy, the first of equals"  # the rule of a step; part of a tuning's identity
Tunable = Literal["base", "validation"]  # never the novel classes
TUNABLE: tuple[Tunable, ...] = typing.get_args(Tunable)


@dataclass(frozen=True)
class TuningStep:
    """One choice among values of some fields of a strategy.

    Attributes:
        split: the classes of the tasks.
        tasks: number of tasks.
        grids: the values of each field; all combinations are tried.
        at: fixed values of fields that a later step chooses.
    """

    split: Tunable
    tasks: int
    grids: Mapping[str, Grid]
    at: Mapping[str, Any]

    def as_dict(self) -> dict[str, Any]:
        """Return the step as a dictionary, for identities and JSON."""
        return {
            "split": self.split,
            "tasks": self.tasks,
            "grids": {field: overrides.write(grid) for field, grid in self.grids.items()},
            "at": {field: overrides.write(value) for field, value in self.at.items()},
        }


def default_grids(protocol: str, strategy: Choice) -> dict[str, Grid]:
    """Return the values that a protocol tries for a strategy, by field; empty if it does not list the strategy.

    Raises:
        InputError: the protocol is unknown or invalid; the message names the file and the place in it.
    """
    return {field: grid for step in _read(protocol, strategy)[0] for field, grid in step.grids.items()}


def steps_of(protocol: str, strategy: Choice) -> tuple[TuningStep, ...]:
    """Return the steps that choose those fields of a strategy that hold a `Grid`, from the values of the grids."""
    grids = strategy.grids
    steps: list[TuningStep] = []
    written, tasks = _read(protocol, strategy)
    for i, step in enumerate(written):
        values_by_field = {field: grids[field] for field in step.grids if field in grids}
        later = {field for other in written[i + 1 :] for field in other.grids if field in grids}
        fixed = {field: value for field, value in step.at.items() if field in later}
        if values_by_field:
            steps.append(TuningStep(step.split, step.tasks, values_by_field, fixed))
    rest = {field: grid for field, grid in grids.items() if not any(field in step.grids for step in steps)}
    if rest:
        last = steps.pop() if steps else TuningStep("validation", tasks, {}, {})
        steps.append(TuningStep(last.split, last.tasks, {**last.grids, **rest}, last.at))
    return tuple(steps)


def _path(protocol: str) -> pathlib.Path:
    if is_yaml(protocol):
        return pathlib.Path(protocol)
    known = groups.names("tuning")
    if protocol not in known:
        raise unknown("tuning", protocol, known)
    return groups.folder() / "tuning" / f"{protocol}.yaml"


def _read(protocol: str, strategy: Choice) -> tuple[tuple[TuningStep, ...], int]:
    """Return the steps of a protocol for a preset, else for its strategy; and the default number of tasks."""
    path = _path(protocol)
    content = read(path)
    tasks = _count(path, content.pop("tasks", TASKS))
    known = groups.names("strategy")
    for name in content:
        if ":" not in name and name not in known:
            raise InputError(f"{path}: {unknown('strategy', name, known)}")
    name = strategy.name if strategy.name in content else strategy.plugin
    if name not in content:
        return (), tasks
    if not isinstance(content[name], list):
        raise InputError(f"{path}: {name}: must be a list of steps, such as {EXAMPLE}")
    kind = groups.described("strategy", strategy.plugin)
    steps = [_step(path, f"{name}, step {i}", step, kind, tasks) for i, step in enumerate(content[name], 1)]
    fields = [field for step in steps for field in step.grids]
    for field in fields:
        if fields.count(field) > 1:
            raise InputError(f"{path}: {name}: {field} is chosen by two steps; delete it from one")
    for i, step in enumerate(steps, 1):
        for field in step.at:
            if not any(field in later.grids for later in steps[i:]):
                raise InputError(
                    f"{path}: {name}, step {i}: at fixes {field}, but no later step chooses it; delete it, and give "
                    f"its value on the command line, {field}=VALUE"
                )
    return tuple(steps), tasks


EXAMPLE = "{split: validation, grid: {weight: [0.1, 1.0]}}"
KEYS = ("split", "grid", "at", "tasks")


def _step(path: pathlib.Path, place: str, written: Any, kind: Described, tasks: int) -> TuningStep:
    if not isinstance(written, dict) or not isinstance(written.get("grid"), dict) or not written["grid"]:
        raise InputError(f"{path}: {place}: must have a grid, such as {EXAMPLE}")
    for key in written:
        if key not in KEYS:
            raise InputError(f"{path}: {place}: {unknown('key', str(key), KEYS)}")
    split = written.get("split", "validation")
    if split not in TUNABLE:
        raise InputError(f"{path}: {place}: split must be one of {', '.join(TUNABLE)}, not {split!r}")
    at = written.get("at") or {}
    if not isinstance(at, dict):
        raise InputError(f"{path}: {place}: at must map fields to values, such as {{weight: 1.0}}, not {at!r}")
    for field in [*written["grid"], *at]:
        if field not in kind.hints:
            raise InputError(f"{path}: {place}: {unknown('field', str(field), kind.hints)}")
    grids = {}
    for field, values in written["grid"].items():
        where = f"{path}: {place}: {field}"
        if isinstance(values, list):
            values = [_converted(where, value, field, kind) for value in values]
        grids[field] = grid_of(where, values)
    fixed = {field: _converted(f"{path}: {place}: {field}", value, field, kind) for field, value in at.items()}
    return TuningStep(split, _count(path, written.get("tasks", tasks)), grids, fixed)


def grid_of(place: str, values: Any) -> Grid:
    """Return the distinct values of a field, with numbers in ascending order.

    Raises:
        InputError: there are fewer than two values; the message starts with `place`.
    """
    if not isinstance(values, (list, tuple)):
        raise InputError(f"{place}: must be a list of values, such as [0.1, 1.0], not {values!r}")
    kept = list(dict.fromkeys(values))
    if len(kept) < 2:
        raise InputError(f"{place}: at least two values are required, not {overrides.write(kept)}")
    return Grid(sorted(kept) if all(overrides.is_number(value) for value in kept) else kept)


def _converted(place: str, value: Any, field: str, kind: Described) -> Any:
    text = value if isinstance(value, str) else overrides.write(value)
    return convert(place, Value(text, value), kind.hints[field], kind.defaults[field])


def _count(path: pathlib.Path, value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise InputError(f"{path}: tasks must be an integer at least 1, not {value!r}")
    return value
