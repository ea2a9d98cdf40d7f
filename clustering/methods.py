"""Clustering methods by name, their settable parameters, and what their fits accept. To add one, write a file with an
estimator and add a line here.

A method is an estimator with the scikit-learn interface: it takes parameters by name and sets `labels_`.
"""

import ast
import inspect
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, get_type_hints

from clustering.foundation.errors import InputError
from clustering.foundation.parameters import grouped_parameters, validate_signature
from clustering.foundation.plugins import Plugins

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

METHODS = Plugins(
    kind="method",
    table={
        "kmeans": "clustering.kmeans:KMeans",
        "kmodes": "clustering.kmodes:GaussianKModes",
        "seeded_kmeans": "clustering.seeded_kmeans:SeededKMeans",
        "ncut": "clustering.graph_partitions:Ncut",
        "kernel_kmeans": "clustering.graph_partitions:KernelKMeans",
        "lk": "clustering.laplacian_kmodes:LaplacianKModes",
        "slk": "clustering.slk.estimator:SLK",
        "published_slk": "clustering.slk.published:PublishedSLK",
        "softmax": "clustering.deep.linear:SoftmaxClustering",
        "entropy": "clustering.deep.linear:EntropyClustering",
        "turtle": "clustering.deep.turtle:TURTLE",
        "xsdc": "clustering.deep.xsdc.estimator:XSDC",
    },
    group="transduce.methods",
)
DECIDED = ("n_clusters", "random_state", "device")
"""Parameters that are set for a run rather than by the method."""

KNOWLEDGE = {  # parameter of fit: description, config key, methods that have it
    "partial_labels": ("known labels", "labels", "slk_means or entropy"),
    "must_link": ("known pairs", "links", "xsdc"),
    "coarse_labels": ("coarse labels", "coarse", "xsdc"),
}


def configured(kind: Any, values: Mapping[str, Any]) -> Any:
    """The estimator with these parameters, checked against their annotations if it has any.

    For a parameter without annotation, a number or a list that was taken for text because the default is a word (such
    as "estimate") is converted back.

    Raises:
        InputError: the class is not a clusterer, whose `fit` requires only the points, or a parameter is invalid; the
            message names it, its valid values and its value.
    """
    of_fit = list(inspect.signature(kind.fit).parameters.values())[1:] if hasattr(kind, "fit") else []
    required = [one.name for one in of_fit if one.default is one.empty and one.kind is one.POSITIONAL_OR_KEYWORD]
    if not of_fit or len(required) > 1:
        raise InputError(f"{kind.__name__} is no clusterer, which needs a fit that requires only X")
    try:
        hints = get_type_hints(kind.__init__, include_extras=True)
    except NameError:  # annotations with names imported for type checkers only
        return kind(**values)
    found = {name: value if name in hints else _literal(value) for name, value in values.items()}
    built = kind(**arranged(kind, found))
    validate_signature(built)
    return built


def arranged(estimator: Any, values: Mapping[str, Any]) -> dict[str, Any]:
    """These parameters as arguments of the class: those that are settings in one of its parameters, such as `solver` of
    XSDC, replace the settings in it.

    Args:
        estimator: an estimator, or its class, whose defaults are then replaced.
        values: parameters and such settings by name.
    """
    found = dict(values)
    for name, group in grouped_parameters(estimator if isinstance(estimator, type) else type(estimator)).items():
        changed = {field: found.pop(field) for field in group.__annotations__ if field in found}
        if changed:
            held = getattr(estimator, name)
            settings = dict(vars(held) if isinstance(held, group) else held or {}) | changed
            found[name] = {key: value for key, value in settings.items() if value != getattr(group, key)} or None
    return found


def _literal(value: Any) -> Any:
    """The number or the list that a text spells; other values are unchanged."""
    try:
        parsed = ast.literal_eval(value) if isinstance(value, str) else value
    except (SyntaxError, ValueError):
        return value
    return tuple(parsed) if isinstance(parsed, list) else parsed


def with_known(estimator: Any, **values: Any) -> Any:
    """The estimator with those of these parameters that it has."""
    known = estimator.get_params()
    return estimator.set_params(**{name: value for name, value in values.items() if name in known})


def check_takes(estimator: Any, parameter: str) -> None:
    """Check that the `fit` of the estimator accepts a parameter of `KNOWLEDGE`.

    Raises:
        InputError: it does not.
    """
    if parameter not in inspect.signature(estimator.fit).parameters:
        knowledge, key, others = KNOWLEDGE[parameter]
        raise InputError(
            f"{type(estimator).__name__} does not accept {knowledge}; remove {key}, or choose a method whose fit has "
            f"{parameter}, such as {others}"
        )


def fitted(
    estimator: Any,
    X: "ArrayLike",
    *,
    graph: Any = None,
    partial_labels: "ArrayLike | None" = None,
    given: Mapping[str, Any] | None = None,
) -> Any:
    """The estimator, fitted to X (N, D).

    Args:
        estimator: any scikit-learn clusterer.
        X: (N, D).
        graph: graph for an estimator whose `fit` accepts one.
        partial_labels: (N,) known clusters, -1 where unknown, for an estimator whose `fit` accepts them.
        given: other arguments of `fit` by name.

    Raises:
        InputError: labels are given, but the estimator does not accept them.
    """
    options = dict(given or {}) | ({"graph": graph} if "graph" in inspect.signature(estimator.fit).parameters else {})
    if partial_labels is not None:
        check_takes(estimator, "partial_labels")
        options["partial_labels"] = partial_labels
    return estimator.fit(X, **options)
