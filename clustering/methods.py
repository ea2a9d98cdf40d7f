"""Clustering methods by name, and their settable parameters. To add one, write a file with an estimator and add a line
here.

A method is an estimator with the scikit-learn interface: it takes parameters by name and sets `labels_`.
"""

import inspect
from collections.abc import Collection, Mapping
from typing import Any, get_type_hints

from clustering.foundation.errors import InputError
from clustering.foundation.parameters import mismatch, validate_signature
from clustering.foundation.plugins import Plugins

METHODS = Plugins(
    kind="method",
    table={
        "kmeans": "clustering.kmeans:KMeans",
        "kmodes": "clustering.kmodes:GaussianKModes",
        "seeded_kmeans": "clustering.seeded_kmeans:SeededKMeans",
        "ncut": "clustering.ncut:Ncut",
        "kernel_kmeans": "clustering.kernel_kmeans:KernelKMeans",
        "lk": "clustering.laplacian_kmodes:LaplacianKModes",
        "slk": "clustering.slk.estimator:SLK",
        "published_slk": "clustering.slk.published:PublishedSLK",
        "softmax": "clustering.deep.linear:SoftmaxClustering",
        "entropy": "clustering.deep.linear:EntropyClustering",
        "xsdc": "clustering.deep.xsdc.estimator:XSDC",
    },
    group="transduce.methods",
)
DECIDED = ("n_clusters", "random_state", "device")
"""Parameters that are set for a run rather than by the method."""

_WRITTEN = (type(None), bool, int, float, str, tuple, list)


def parameters(kind: Any, decided: Collection[str] = DECIDED) -> dict[str, Any]:
    """Parameters of an estimator class that belong to the method, with their defaults, if these can be serialised.

    Args:
        kind: the estimator class.
        decided: parameters that do not belong to the method.
    """
    defaults = {name: parameter.default for name, parameter in inspect.signature(kind).parameters.items()}
    return {name: value for name, value in defaults.items() if name not in decided and isinstance(value, _WRITTEN)}


def configured(kind: Any, values: Mapping[str, Any]) -> Any:
    """The estimator with these parameters, checked against their annotations if it has any.

    A class whose `fit` requires more than the points is not a clusterer. A number, or a list of numbers, that was
    parsed as text because the default is a word (such as "estimate") is converted back, unless the annotation requires
    text.

    Raises:
        InputError: the class is not a clusterer, or a parameter is invalid; the message names it, its valid values and
            its value.
    """
    arguments = _required_arguments(kind)
    if arguments is None or len(arguments) > 1:
        lacks = "has no fit" if arguments is None else f"fits {' and '.join(arguments)}"
        raise InputError(f"{kind.__name__} {lacks}, but a clusterer needs a fit that requires only X")
    try:
        hints = get_type_hints(kind.__init__, include_extras=True)
    except NameError:  # annotations with names imported for type checkers only
        return kind(**values)
    options = dict(values)
    for name, value in values.items():
        if not isinstance(value, str):
            continue
        if name not in hints or mismatch(value, hints[name]):
            options[name] = _number(value)
        elif value.startswith("[") and not mismatch((1.0,), hints[name]):
            options[name] = _numbers(value)
    built = kind(**options)
    validate_signature(built)
    return built


def with_known(estimator: Any, **values: Any) -> Any:
    """The estimator with those of these parameters that it has."""
    known = estimator.get_params()
    return estimator.set_params(**{name: value for name, value in values.items() if name in known})


def _required_arguments(kind: Any) -> list[str] | None:
    """First required argument of `fit` besides X; None if there is none."""
    if not hasattr(kind, "fit"):
        return None
    _, *parameters = inspect.signature(kind.fit).parameters.values()
    return [
        parameter.name
        for parameter in parameters
        if parameter.default is parameter.empty and parameter.kind is parameter.POSITIONAL_OR_KEYWORD
    ]


def _number(text: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text


def _numbers(text: str) -> tuple[int | float | str, ...] | str:
    numbers = tuple(_number(part.strip()) for part in text.strip("[]").split(","))
    return text if any(isinstance(number, str) for number in numbers) else numbers
