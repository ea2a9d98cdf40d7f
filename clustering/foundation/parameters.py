"""Hyper-parameters as frozen dataclasses whose annotations define the valid values.

@dataclass(frozen=True)
class LaplacianShot(Validated):
    weight: Annotated[float, AtLeast(0)] = 0.7
    graph: Literal["average", "directed"] = "average"
"""

import dataclasses
import math
import numbers
import types
import typing
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Union

from clustering.foundation.errors import InputError

LARGEST = 1e15
"""Largest absolute value of a field of a dataclass; its reciprocal is the smallest besides 0. Squares then fit into
float32."""
LARGEST_OF_ESTIMATORS = 1e30  # estimators accept points in any units, and numbers as small as one likes
NARROWEST = 1e-15
"""Smallest bandwidth of a kernel, so that the reciprocal of its square fits into float32."""


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
        return f"between {self.low:g} and {self.high:g}" if self.high < math.inf else f"at least {self.low:g}"

    def holds(self, value: float) -> bool:
        return self.low <= value <= self.high


class AtLeast(Within):
    """The field is at least `low`."""

    def __init__(self, low: float) -> None:
        super().__init__(low, math.inf)


def validate(parameters: Any) -> None:
    """Check every field of a dataclass instance against its annotation.

    Supports int, float (which accepts an int), bool, str, None, `Literal`, unions, `tuple[T, ...]` and the bounds above
    in `Annotated`; other annotations are left to the class.

    Raises:
        InputError: a field is invalid; the message names it, its valid values and its value.
    """
    hints = typing.get_type_hints(type(parameters), include_extras=True)
    fields = {field.name: hints[field.name] for field in dataclasses.fields(parameters)}
    _check(parameters, getattr(parameters, "name", None) or type(parameters).__name__, fields, LARGEST)


class Validated:
    """Base of a dataclass whose fields are validated when it is made."""

    def __post_init__(self) -> None:
        validate(self)


def validate_signature(estimator: Any) -> None:
    """Check every parameter of an estimator against its annotation in `__init__`, as `validate` does for fields.

    Raises:
        InputError: a parameter is invalid; the message names it, its valid values and its value.
    """
    hints = typing.get_type_hints(type(estimator).__init__, include_extras=True)
    hints.pop("return", None)
    _check(estimator, type(estimator).__name__, hints, LARGEST_OF_ESTIMATORS)


def _check(owner: Any, name: str, hints: Mapping[str, Any], largest: float) -> None:
    for field, hint in hints.items():
        value = getattr(owner, field)
        problem = mismatch(value, hint, largest)
        if problem:
            raise InputError(f"{name}: {field} must be {problem}, not {value!r}")


def grouped_parameters(kind: type) -> dict[str, type]:
    """Parameters of an estimator that hold several settings, such as `solver` of XSDC, and the dataclass that its
    annotation names for them."""
    try:
        hints = typing.get_type_hints(kind.__init__, include_extras=True)  # type: ignore[misc]
    except NameError:  # annotations with names imported for type checkers only
        return {}
    parts = {name: typing.get_args(hint) for name, hint in hints.items()}
    return {
        name: part
        for name, found in parts.items()
        for part in found
        if dataclasses.is_dataclass(part) and isinstance(part, type)
    }


def mismatch(value: Any, annotation: Any, largest: float = LARGEST) -> str | None:
    """Description of the values that `annotation` allows if `value` is not one of them, else None.

    Args:
        value: the value.
        annotation: see `validate`.
        largest: largest absolute value of a float.
    """
    origin, parts = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Annotated:
        inner, *bounds = parts
        wrong = mismatch(value, inner, largest)
        if wrong is None and value is not None and not all(bound.holds(value) for bound in bounds):
            wrong = _describe(inner)
        return wrong and " ".join([wrong, *map(str, bounds)])
    if origin is Literal:
        return None if value in parts else _describe(annotation)
    if origin in (Union, types.UnionType):
        wrongs = [mismatch(value, part, largest) for part in parts]
        return None if None in wrongs else " or ".join(str(wrong) for wrong in wrongs)
    if origin is tuple:
        listed = isinstance(value, (tuple, list))
        wrongs = [mismatch(item, parts[0], largest) for item in value] if listed else [_describe(parts[0])]
        return next((f"a list, each {wrong}" for wrong in wrongs if wrong), None)
    if annotation in (int, float):
        if not _is_number(value, annotation):
            return _describe(annotation)
        if annotation is int:
            return None if abs(value) < 2**63 else "an integer of 64 bits"
        smallest = 1 / LARGEST if largest == LARGEST else 0.0
        if value == 0 or smallest <= abs(value) <= largest:
            return None
        return f"0 or a number whose size is between {smallest:g} and {largest:g}"
    known = annotation in (bool, str, type(None))
    return _describe(annotation) if known and not isinstance(value, annotation) else None


def _is_number(value: Any, kind: type) -> bool:
    """Whether the value is an integer or a finite number of this kind, including numpy numbers, which occur in
    grids."""
    if isinstance(value, bool):
        return False
    if isinstance(value, numbers.Integral):
        return True
    return kind is float and isinstance(value, numbers.Real) and math.isfinite(value)


def _describe(annotation: Any) -> str:
    if typing.get_origin(annotation) is Literal:
        return "one of " + ", ".join(str(option) for option in typing.get_args(annotation))
    if typing.get_origin(annotation) is Annotated:
        return _describe(typing.get_args(annotation)[0])
    words = {int: "an integer", float: "a number", bool: "true or false", str: "text", type(None): "null"}
    return words.get(annotation, str(annotation))
