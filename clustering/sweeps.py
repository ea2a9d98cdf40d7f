"""What a fit is told besides the points, and whether a method accepts it."""

from collections.abc import Mapping
from typing import Any

from numpy.typing import ArrayLike
from sklearn.utils.validation import has_fit_parameter

from clustering.foundation.errors import InputError

KNOWLEDGE = {  # parameter of fit: description, config key, methods that have it
    "partial_labels": ("known labels", "labels", "slk_means or entropy"),
    "must_link": ("known pairs", "links", "xsdc"),
    "coarse_labels": ("coarse labels", "coarse", "xsdc"),
}


def check_takes(estimator: Any, parameter: str) -> None:
    """Check that the `fit` of the estimator accepts a parameter of `KNOWLEDGE`.

    Raises:
        InputError: it does not.
    """
    if not has_fit_parameter(estimator, parameter):
        knowledge, key, others = KNOWLEDGE[parameter]
        raise InputError(
            f"{type(estimator).__name__} does not accept {knowledge}; remove {key}, or choose a method whose fit has "
            f"{parameter}, such as {others}"
        )


def fitted(
    estimator: Any,
    X: ArrayLike,
    *,
    graph: Any = None,
    partial_labels: ArrayLike | None = None,
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
    options = dict(given or {}) | ({"graph": graph} if has_fit_parameter(estimator, "graph") else {})
    if partial_labels is not None:
        check_takes(estimator, "partial_labels")
        options["partial_labels"] = partial_labels
    return estimator.fit(X, **options)
