"""Several fits of one data set: every setting of a grid with every seed."""

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.utils.validation import has_fit_parameter

from clustering.foundation.errors import InputError


def settings(estimator: Any, seeds: Sequence[int], grid: Sequence[Mapping[str, Any]]) -> list[Any]:
    """Unfitted clones of the estimator in the order of product(grid, seeds); a random_state of the grid goes before the
    seeds."""
    seeded = "random_state" in estimator.get_params()
    return [
        clone(estimator).set_params(**{**({"random_state": int(seed)} if seeded else {}), **point})
        for point, seed in product(grid, seeds)
    ]


TOLD = {  # parameter of fit: what it is, its key, methods that have it
    "partial_labels": ("known labels", "labels", "slk_means or entropy"),
    "must_link": ("known pairs", "links", "xsdc"),
    "coarse_labels": ("coarse labels", "coarse", "xsdc"),
}


def check_takes(estimator: Any, parameter: str) -> None:
    """That the `fit` of the estimator has a parameter of `TOLD`.

    Raises:
        InputError: it has not.
    """
    if not has_fit_parameter(estimator, parameter):
        what, key, others = TOLD[parameter]
        raise InputError(
            f"{type(estimator).__name__} takes no {what}; leave {key} out, or choose a method whose fit has "
            f"{parameter}, as {others}"
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

    By the estimator's own `trials` where it has one and nothing else is given, which does them together; else one
    after the other.

    Args:
        estimator: any scikit-learn clusterer.
        X: (N, D).
        seeds: values of random_state.
        grid: parameters that differ from the estimator's; with a random_state of their own, pairs of setting and seed.
        graph: for those whose `fit` takes one.
        partial_labels: (N,) known clusters, -1 where unknown, of an estimator whose `fit` takes them.
        given: what else its `fit` is given, by name.

    Raises:
        InputError: labels, for one that takes none.
    """
    if hasattr(estimator, "trials") and partial_labels is None and not given:
        fitted: list[Any] = estimator.trials(X, seeds=seeds, grid=grid, graph=graph)
        return fitted
    options = dict(given or {}) | ({"graph": graph} if has_fit_parameter(estimator, "graph") else {})
    if partial_labels is not None:
        check_takes(estimator, "partial_labels")
        options["partial_labels"] = partial_labels
    return [model.fit(X, **options) for model in settings(estimator, seeds, grid)]
