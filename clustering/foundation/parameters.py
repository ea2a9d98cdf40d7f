"""Hyper-parameters as frozen dataclasses whose annotations define the valid values.

@dataclass(frozen=True)
class LaplacianShot:
    weight: Annotated[float, AtLeast(0)] = 0.7
    graph: Literal["average", "directed"] = "average"

    def __post_init__(self) -> None:
        validate(self)
"""

import dataclasses
import math
import numbers
import types
import typing
from typing import Annotated, Any, Literal, Union

from clustering.foundation.errors import InputError

LARGEST = 1e15
"""Largest absolute value of a field of a dataclass; its reciprocal is the smallest besides 0. Squares then fit into
float32."""
LARGEST_OF_ESTIMATORS = 1e30  # estimators accept points in any units, and numbers as small as one likes
LARGEST_INTEGER = 2**63 - 1
NARROWEST = 1e-15
"""Smallest bandwidth of a kernel, so that the reciprocal of its square fits into float32."""


@dataclasses.dataclass(frozen=True)
class AtLeast:
    """The field is at least `low`."""

    low: float

    def __str__(self) -> str:
        return f"at least {self.low:g}"

    def holds(self, value: float) -> bool:
        return value >= self.low


@dataclasses.dataclass(frozen=True)
class Above:
    """The field is above `low`."""

    low: float

    def __str__(self) -> str:
        return f"above {self.low:g}"

    def holds(self, value: float) -> bool:
        return value > self.low


@dataclasses.dataclass(frozen=True)
class Within:
    """The field is between `low` and `high`, both included."""

    low: float
    high: float

    def __str__(self) -> str:
        return f"between {self.low:g} and {self.high:g}"

    def holds(self, value: float) -> bool:
        return self.low <= value <= self.high


Count = Annotated[int, AtLeast(1)]
"""A number of things, at least one."""

NonNegative = Annotated[float, AtLeast(0)]
"""A number that is at least 0."""


def validate(parameters: Any) -> None:
    """Check every field of a dataclass instance against its annotation.

    Supports int, float (which accepts an int), bool, str, None, `Literal`, unions, `tuple[T, ...]` and the bounds above
    in `Annotated`; other annotations are left to the class.

    Raises:
        InputError: a field is invalid; the message names it, its valid values and its value.
    """
    hints = typing.get_type_hints(type(parameters), include_extras=True)
    for field in dataclasses.fields(parameters):
        value = getattr(parameters, field.name)
        problem = mismatch(value, hints[field.name])
        if problem:
            owner = getattr(parameters, "name", None) or type(parameters).__name__
            raise InputError(f"{owner}: {field.name} must be {problem}, not {value!r}")


def validate_signature(estimator: Any) -> None:
    """Check every parameter of an estimator against its annotation in `__init__`, as `validate` does for fields.

    Raises:
        InputError: a parameter is invalid; the message names it, its valid values and its value.
    """
    hints = typing.get_type_hints(type(estimator).__init__, include_extras=True)
    hints.pop("return", None)
    for name, hint in hints.items():
        value = getattr(estimator, name)
        problem = mismatch(value, hint, LARGEST_OF_ESTIMATORS)
        if problem:
            raise InputError(f"{type(estimator).__name__}: {name} must be {problem}, not {value!r}")


def mismatch(value: Any, annotation: Any, largest: float = LARGEST) -> str | None:
    """Description of the values that `annotation` allows if `value` is not one of them, else None.

    Args:
        largest: largest absolute value of a float.
    """
    origin = typing.get_origin(annotation)
    if origin is Annotated:
        inner, *bounds = typing.get_args(annotation)
        wrong = mismatch(value, inner, largest)
        if mismatch(value, inner, math.inf) is None:  # bounds apply only to values of the right type
            if value is None or all(bound.holds(value) for bound in bounds):
                return wrong
            wrong = None
        return " ".join([wrong or str(_describe(inner)), *map(str, bounds)])
    if origin is Literal:
        return None if value in typing.get_args(annotation) else _describe(annotation)
    if origin in (Union, types.UnionType):
        parts = typing.get_args(annotation)
        wrongs = [mismatch(value, part, largest) for part in parts]
        return None if None in wrongs else " or ".join(str(wrong) for wrong in wrongs)
    if origin is tuple:
        inner = typing.get_args(annotation)[0]
        wrongs = (
            [mismatch(item, inner, largest) for item in value]
            if isinstance(value, (tuple, list))
            else [_describe(inner)]
        )
        return next((f"a list, each {wrong}" for wrong in wrongs if wrong), None)
    if annotation in (int, float, bool, str, type(None)):
        if annotation in (int, float) and _is_number(value, annotation):
            return _too_large(abs(value), annotation, largest)
        valid = annotation not in (int, float) and isinstance(value, annotation)
        return None if valid else _describe(annotation)
    return None


def _is_number(value: Any, kind: type) -> bool:
    """Whether the value is an integer or a finite number of this kind, including numpy numbers, which occur in
    grids."""
    if isinstance(value, bool):
        return False
    if isinstance(value, numbers.Integral):
        return True
    return kind is float and isinstance(value, numbers.Real) and math.isfinite(value)


def _too_large(size: float, kind: type, largest: float) -> str | None:
    """Description of the valid range if the size of a number is outside, else None."""
    if kind is int:
        return None if size <= LARGEST_INTEGER else "an integer of 64 bits"
    smallest = 1 / LARGEST if largest == LARGEST else 0.0
    if size == 0 or smallest <= size <= largest:
        return None
    return f"0 or a number whose size is between {smallest:g} and {largest:g}"


def _describe(annotation: Any) -> str:
    if typing.get_origin(annotation) is Literal:
        return "one of " + ", ".join(str(option) for option in typing.get_args(annotation))
    if typing.get_origin(annotation) is Annotated:
        return _describe(typing.get_args(annotation)[0])
    words = {int: "an integer", float: "a number", bool: "true or false", str: "text", type(None): "null"}
    return words.get(annotation, str(annotation))
