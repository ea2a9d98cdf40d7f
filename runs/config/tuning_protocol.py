"""Tuning protocols: the steps, classes and values with which parameters are chosen.

A protocol is a file of `configs/tuning/`, or a file of your own:

    tasks: 500                       # number of tasks of a step, unless the step sets its own
    laplacianshot:                   # a strategy and its presets, with its steps in order
      - {split: base, grid: {n_neighbors: [3, 5, 10]}, at: {weight: 1.0}}
      - {split: validation, grid: {weight: [0.1, 0.3, 0.7]}}

A step tries all combinations of its grid on the same tasks and keeps the best. `at` fixes a field that a later step
chooses. A preset with an empty list is not tuned, even if its strategy is. If the user gives several values of a field
that no step names, the field joins the last step.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from clustering.foundation.errors import InputError, unknown
from clustering.foundation.parameters import AtLeast, mismatch
from runs.config import groups, overrides
from runs.config.groups import Choice
from runs.config.overrides import Grid
from runs.config.yaml_files import read

TASKS = 500
RULE = "highest mean accuracy, the first of equals"  # the rule of a step; part of a tuning's identity
Tunable = Literal["base", "validation"]  # never the novel classes
EXAMPLE = "{split: validation, grid: {weight: [0.1, 1.0]}}"
FORM = {"tasks": Annotated[int, AtLeast(1)], "split": Tunable, "grid": dict, "at": dict}


@dataclass(frozen=True)
class TuningStep:
    """One choice among values of some fields of a strategy."""

    split: Tunable  # the classes of the tasks
    tasks: int  # number of tasks
    grids: Mapping[str, Grid]  # the values of each field; all combinations are tried
    at: Mapping[str, Any]  # fixed values of fields that a later step chooses

    def as_dict(self) -> dict[str, Any]:
        """Return the step as a dictionary, for identities and JSON."""
        texts = {
            name: {field: overrides.write(value) for field, value in getattr(self, name).items()}
            for name in ("grids", "at")
        }
        return {"split": self.split, "tasks": self.tasks, **texts}


def default_grids(protocol: str, strategy: Choice) -> dict[str, Grid]:
    """Return the values that a protocol tries for a strategy, by field; empty if it does not list the strategy.

    Raises:
        InputError: the protocol is unknown or invalid; the message names the file and the place in it.
    """
    return {field: grid for step in _read(protocol, strategy)[0] for field, grid in step.grids.items()}


def steps_of(protocol: str, strategy: Choice) -> tuple[TuningStep, ...]:
    """Return the steps that choose those fields of a strategy that hold a `Grid`, from the values of the grids."""
    written, tasks = _read(protocol, strategy)
    left, steps = strategy.grids, []
    for step in written:
        grids = {field: left.pop(field) for field in step.grids if field in left}
        if grids:
            steps.append(dataclasses.replace(step, grids=grids))
    if left:
        last = steps.pop() if steps else TuningStep("validation", tasks, {}, {})
        steps.append(dataclasses.replace(last, grids={**last.grids, **left}))
    later: list[TuningStep] = []
    for step in reversed(steps):
        chosen = {field for other in later for field in other.grids}
        later.insert(0, dataclasses.replace(step, at={key: step.at[key] for key in step.at if key in chosen}))
    return tuple(later)


def _read(protocol: str, strategy: Choice) -> tuple[list[TuningStep], int]:
    """Return the steps of a protocol for a preset, else for its strategy; and the default number of tasks."""
    path, known = groups.file("tuning", protocol), groups.names("strategy")
    content, place = {"tasks": TASKS, **read(path)}, str(path)
    name = strategy.name if strategy.name in content else strategy.plugin
    try:
        if wrong := next((one for one in content if one not in known and one != "tasks" and ":" not in one), None):
            raise unknown("strategy", wrong, known)
        _check({"tasks": content["tasks"]})
        written, place = content.get(name, []), f"{path}: {name}"
        if not isinstance(written, list) or not all(isinstance(step, dict) and step.get("grid") for step in written):
            raise InputError(f"must be a list of steps, each with a grid, such as {EXAMPLE}")
        hints = groups.described("strategy", strategy.plugin).hints
        default = {"tasks": content["tasks"], "split": "validation", "at": {}}
        return [_step(default | step, hints) for step in written], content["tasks"]
    except InputError as error:
        raise InputError(f"{place}: {error}") from error


def _check(step: Mapping[str, Any]) -> None:
    for key, value in step.items():
        if key not in FORM:
            raise unknown("key", key, FORM)
        if FORM[key] is dict and not isinstance(value, dict):
            raise InputError(f"{key} must map fields to values, as in {EXAMPLE}, not {value!r}")
        if problem := mismatch(value, FORM[key]):
            raise InputError(f"{key} must be {problem}, not {value!r}")


def _step(step: Mapping[str, Any], hints: Mapping[str, Any]) -> TuningStep:
    def read_as(field: str, value: Any) -> Any:
        if field not in hints:
            raise unknown("field", field, hints)
        return overrides.convert(field, overrides.of_file(value), hints[field])

    _check(step)
    grids = {
        field: grid_of(field, [read_as(field, value) for value in values] if isinstance(values, list) else values)
        for field, values in step["grid"].items()
    }
    fixed = {field: read_as(field, value) for field, value in step["at"].items()}
    return TuningStep(step["split"], step["tasks"], grids, fixed)


def grid_of(place: str, values: Any) -> Grid:
    """Return the distinct values of a field, with numbers in ascending order.

    Raises:
        InputError: there are fewer than two values; the message starts with `place`.
    """
    kept = list(dict.fromkeys(values)) if isinstance(values, list) else []
    if len(kept) < 2:
        raise InputError(f"{place}: must be a list of at least two values, such as [0.1, 1.0], not {values!r}")
    return Grid(sorted(kept) if all(map(overrides.is_number, kept)) else kept)
