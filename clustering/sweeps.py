"""Several fits of one data set: every setting of a grid with every seed."""

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.utils.validation import has_fit_parameter

from clustering.errors import InputError


def settings(estimator: Any, seeds: Sequence[int], grid: Sequence[Mapping[str, Any]]) -> list[Any]:
    """Unfitted clones of the estimator in the order of product(grid, seeds); a random_state of the grid goes before the
    seeds."""
    seeded = "random_state" in estimator.get_params()
    return [
        clone(estimator).set_params(**{**({"random_state": int(seed)} if seeded else {}), **point})
        for point, seed in product(grid, seeds)
    ]


def check_takes_labels(estimator: Any) -> None:
    """That known labels can be given to its `fit`.

    Raises:
        InputError: they cannot.
    """
    if not has_fit_parameter(estimator, "partial_labels"):
        raise InputError(
            f"{type(estimator).__name__} takes no known labels; leave labels out, or choose a method whose fit has "
            "partial_labels, as slk_means or entropy"
        )


def check_takes_links(estimator: Any) -> None:
    """That known pairs can be given to its `fit`.

    Raises:
        InputError: they cannot.
    """
    if not has_fit_parameter(estimator, "must_link"):
        raise InputError(
            f"{type(estimator).__name__} takes no known pairs; leave links out, or choose a method whose fit has "
            "must_link, as xsdc"
        )


def check_takes_coarse_labels(estimator: Any) -> None:
    """That coarse labels can be given to its `fit`.

    Raises:
        InputError: they cannot.
    """
    if not has_fit_parameter(estimator, "coarse_labels"):
        raise InputError(
            f"{type(estimator).__name__} takes no coarse labels; leave coarse out, or choose a method whose fit has "
            "coarse_labels, as xsdc"
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
        check_takes_labels(estimator)
        options["partial_labels"] = partial_labels
    return [model.fit(X, **options) for model in settings(estimator, seeds, grid)]
