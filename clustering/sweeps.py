"""Several fits of one data set, for every setting of a grid with every seed."""

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.utils.validation import has_fit_parameter

from clustering.foundation.errors import InputError


def settings(estimator: Any, seeds: Sequence[int], grid: Sequence[Mapping[str, Any]]) -> list[Any]:
    """Unfitted clones of the estimator in the order of product(grid, seeds); a random_state in the grid overrides the
    seeds."""
    seeded = "random_state" in estimator.get_params()
    return [
        clone(estimator).set_params(**{**({"random_state": int(seed)} if seeded else {}), **point})
        for point, seed in product(grid, seeds)
    ]


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


def fit_trials(
    estimator: Any,
    X: ArrayLike,
    *,
    seeds: Sequence[int],
    grid: Sequence[Mapping[str, Any]] = ({},),
    graph: Any = None,
    partial_labels: ArrayLike | None = None,
    given: Mapping[str, Any] | None = None,
) -> list[Any]:
    """Fitted clones of the estimator, in the order of product(grid, seeds).

    Args:
        estimator: any scikit-learn clusterer.
        X: (N, D).
        seeds: values of random_state.
        grid: parameters that override those of the estimator; with a random_state, pairs of setting and seed.
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
    return [model.fit(X, **options) for model in settings(estimator, seeds, grid)]
