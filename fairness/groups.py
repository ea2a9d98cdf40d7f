"""Sensitive features as groups: the membership of each point, and the target proportions in each cluster."""

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from clustering.estimator_input import as_array, check_no_gap
from clustering.foundation.errors import InputError

_MAX_GROUPS = 100
"""Maximum number of groups of an attribute; with more, it is taken to be numeric."""

_OFF = 1e-6
"""Tolerance of the sum of the target proportions."""


@dataclass(frozen=True, eq=False)
class Groups:
    """Groups of N points by A attributes, J groups in total.

    Points with the same groups in every attribute form a cell; there are C cells. With one attribute, cells are groups.

    Attributes:
        cells: (N,) int64, 0..C-1, none empty.
        membership: (C, J) float64, 1 for the groups of a cell, one of each attribute.
        names: J values as passed, sorted within each attribute; ordered categories of pandas keep their order.
        attributes: A names of attributes.
        attribute_of: (J,) int64, attribute of each group.
        target: (J,) float64, positive; sums to one over the groups of each attribute.
        crossed: names of the attributes whose combinations form the groups, empty if groups are not combinations.
    """

    cells: NDArray[np.int64]
    membership: NDArray[np.float64]
    names: tuple[Any, ...]
    attributes: tuple[str, ...]
    attribute_of: NDArray[np.int64]
    target: NDArray[np.float64]
    crossed: tuple[str, ...] = ()

    @cached_property
    def sizes(self) -> NDArray[np.int64]:
        """(J,) number of points of each group."""
        sizes: NDArray[np.float64] = np.bincount(self.cells, minlength=len(self.membership)) @ self.membership
        return sizes.round().astype(np.int64)

    def without_points(self) -> "Groups":
        """The same groups and sizes without the groups of single points, for fitted models that are stored."""
        groups = replace(self, cells=self.cells[:0].copy())
        groups.__dict__["sizes"] = self.sizes
        return groups

    @property
    def trivial(self) -> bool:
        """Whether every attribute has a single group, so that every clustering is fair."""
        return len(self.names) == len(self.attributes)

    def labels(self) -> tuple[str, ...]:
        """J names as text, prefixed by the attribute if there are several; combinations as "man / north"."""
        if len(self.attributes) == 1:
            return tuple(_text(name) for name in self.names)
        return tuple(f"{self.attributes[t]}={name}" for t, name in zip(self.attribute_of, self.names, strict=True))

    def of_others(self, sensitive_features: Any, points: int) -> NDArray[np.float64]:
        """(n, J) group indicators of n other points.

        Raises:
            InputError: the attributes or values do not occur in these groups.
        """
        columns = _columns(sensitive_features, points)
        names_of_fit = self.crossed or self.attributes
        if len(names_of_fit) == len(columns) == 1:  # a single attribute needs no name
            columns = dict(zip(names_of_fit, columns.values(), strict=True))
        if set(columns) != set(names_of_fit):
            raise InputError(f"sensitive_features has attributes {list(columns)}; the fit had {list(names_of_fit)}")
        coded = [_coded(name, columns[name]) for name in names_of_fit]
        indicators = np.zeros((points, len(self.names)))
        for attribute, (codes, names) in enumerate([_crossed(coded)] if self.crossed else coded):
            known = {self.names[j]: j for j in np.flatnonzero(self.attribute_of == attribute)}
            unknown = [name for name in names if name not in known]
            if unknown:
                raise InputError(
                    f"sensitive_features: {_shown(unknown[0])!r} is not a group of the fit, which had "
                    f"{[_shown(name) for name in known]}"
                )
            indicators[np.arange(points), np.array([known[name] for name in names])[codes]] = 1
        return indicators

    def counts(self, labels: NDArray[np.integer[Any]], clusters: int) -> NDArray[np.int64]:
        """(J, K) number of points of each group with each of the labels 0..K-1 (N,)."""
        cells = np.bincount(self.cells * clusters + labels, minlength=len(self.membership) * clusters)
        counts: NDArray[np.float64] = self.membership.T @ cells.reshape(-1, clusters)
        return counts.round().astype(np.int64)


def groups_of(sensitive_features: Any, points: int, *, target: Any = None, intersectional: bool = False) -> Groups:
    """Groups of N points.

    Args:
        sensitive_features: N values of one attribute, or several attributes as the columns of an (N, A) array or data
            frame, or as a mapping from names to N values. Values can be of any hashable type. None makes a single
            group. Groups are sorted; ordered categories of pandas, such as those of `pandas.qcut`, keep their order.
        points: N.
        target: target proportions in each cluster: J shares in the order of the sorted groups, or {group: share}; with
            several attributes {attribute: either}. None uses those of the data.
        intersectional: whether groups are the combinations of attributes that occur. They are named by tuples; a target
            may also name them by text such as "man / north".

    Raises:
        InputError: values are missing or not N in number, an attribute has more than 100 groups, or the target is
            invalid: its shares are not positive or do not sum to one, or its groups are not those of the data.
    """
    columns = _columns(sensitive_features, points)
    coded = [_coded(name, values) for name, values in columns.items()]
    attributes: tuple[str, ...] = tuple(columns)
    crossed: tuple[str, ...] = ()
    if intersectional and len(coded) > 1:
        coded, attributes, crossed = [_crossed(coded)], (" x ".join(attributes),), attributes
    present, cells = np.unique(np.stack([codes for codes, _ in coded], axis=1), axis=0, return_inverse=True)
    sizes = [len(names) for _, names in coded]
    membership = np.concatenate([np.eye(size)[present[:, i]] for i, size in enumerate(sizes)], axis=1)
    groups = Groups(
        cells.ravel().astype(np.int64),
        membership,
        tuple(name for _, names in coded for name in names),
        attributes,
        np.repeat(np.arange(len(coded)), sizes),
        np.empty(0),
        crossed,
    )
    return replace(groups, target=_target(target, groups, points))


def smallest_group(groups: Groups, clusters: int, owner: str) -> None:
    """Reject a group with fewer points than clusters, which cannot be in every cluster.

    Raises:
        InputError: a group is too small; the message names it, its size and possible remedies.
    """
    smallest = int(groups.sizes.argmin())
    if not groups.trivial and groups.sizes[smallest] < clusters:
        raise InputError(
            f"{owner}: group {groups.labels()[smallest]!r} has {groups.sizes[smallest]} points, fewer than "
            f"n_clusters={clusters}, so it cannot be in every cluster; merge it with another, remove its "
            "points, set fewer n_clusters, or set small_groups='keep'"
        )


_Coded = tuple[NDArray[np.int64], list[Any]]
"""(N,) group numbers of one attribute, and the sorted names of the groups."""


def _columns(features: Any, points: int) -> dict[str, Any]:
    """The attributes by name."""
    if features is None:
        return {"all": np.zeros(points, dtype=np.int64)}
    features = as_array(features)
    if isinstance(features, Mapping):
        columns = {str(name): as_array(values) for name, values in features.items()}
    elif isinstance(features, pd.DataFrame):
        columns = {str(name): features.iloc[:, i] for i, name in enumerate(features.columns)}
        if len(columns) < features.shape[1]:
            raise InputError("sensitive_features has two columns of the same name; rename one")
    elif isinstance(features, pd.Series):
        columns = {"group" if features.name is None else str(features.name): features}
    else:
        array = features if isinstance(features, np.ndarray) else _array(features)
        if array.ndim == 2:
            columns = {str(i): array[:, i] for i in range(array.shape[1])}
        elif array.ndim == 1:
            columns = {"group": array}
        else:
            raise InputError(f"sensitive_features must be N values or (N, A), not {array.shape}")
    if not columns:
        raise InputError("sensitive_features has no columns; pass None if there are no groups")
    for name, values in columns.items():
        if np.ndim(values) != 1 or len(values) != points:
            raise InputError(f"sensitive_features: {name!r} has shape {np.shape(values)}, X has {points} rows")
    return columns


def _array(sequence: Any) -> NDArray[Any]:
    """Array of the values of a list, unchanged: numpy would convert None and NaN among strings to text."""
    if isinstance(sequence, str) or not isinstance(sequence, Iterable):
        raise InputError(
            f"sensitive_features must be N values, a table or a mapping from names to N values, not {sequence!r}"
        )
    rows = list(sequence)
    wide = bool(rows) and all(isinstance(row, (list, tuple, np.ndarray)) for row in rows)
    if wide and len({len(row) for row in rows}) > 1:
        raise InputError("sensitive_features has rows of different lengths")
    values = np.empty((len(rows), len(rows[0])) if wide else len(rows), dtype=object)
    if rows:
        values[:] = rows
    return values


def _coded(name: str, values: Any) -> _Coded:
    if isinstance(values, np.ndarray) and values.dtype.kind == "U":
        check_no_gap(values, f"sensitive_features, {name!r}")
    as_they_are = isinstance(values, (pd.Series, pd.Categorical))
    series = pd.Series(values if as_they_are else np.asarray(values)).reset_index(drop=True)
    if series.dtype == object:
        series = series.infer_objects()
    gaps = series.isna().to_numpy()
    if gaps.any():
        raise InputError(
            f"sensitive_features: {name!r} has no value in {int(gaps.sum())} of {len(series)} rows, first in "
            f"row {int(gaps.argmax())}; fill in the values, remove these rows, or make them a group, as by fillna of "
            "pandas"
        )
    codes, unique = pd.factorize(series)
    names = [value.item() if isinstance(value, np.generic) else value for value in unique]
    if len(names) > _MAX_GROUPS:
        raise InputError(
            f"sensitive_features: {name!r} has {len(names)} different values, more than {_MAX_GROUPS}; if it is "
            "numeric, make groups of it, as by pandas.qcut(values, 4), otherwise merge rare values"
        )
    order = _order(names, series.dtype)
    return np.argsort(order)[codes].astype(np.int64), [names[i] for i in order]


def _order(names: list[Any], dtype: Any) -> list[int]:
    """Positions that sort the names; ordered categories keep their order."""
    if isinstance(dtype, pd.CategoricalDtype) and dtype.ordered:
        places = dtype.categories.get_indexer(pd.Index(names))
        return sorted(range(len(names)), key=places.__getitem__)
    try:
        return sorted(range(len(names)), key=names.__getitem__)
    except TypeError:  # mixed types
        return sorted(range(len(names)), key=lambda i: str(names[i]))


def _crossed(coded: list[_Coded]) -> _Coded:
    """The combinations that occur, as one attribute."""
    present, codes = np.unique(np.stack([column for column, _ in coded], axis=1), axis=0, return_inverse=True)
    if len(present) > _MAX_GROUPS:
        raise InputError(
            f"sensitive_features: {len(present)} combinations occur, more than {_MAX_GROUPS}; merge rare values"
        )
    names = [tuple(names[i] for i, (_, names) in zip(row, coded, strict=True)) for row in present]
    return codes.ravel().astype(np.int64), names


def _target(wanted: Any, groups: Groups, points: int) -> NDArray[np.float64]:
    shares: NDArray[np.float64] = groups.sizes / points
    if wanted is None:
        return shares
    if len(groups.attributes) == 1:
        by_attribute = {groups.attributes[0]: wanted}
    elif isinstance(wanted, Mapping):
        by_attribute = dict(wanted)
        unknown = [name for name in by_attribute if name not in groups.attributes]
        if unknown:
            raise InputError(f"target: unknown attribute {unknown[0]!r}; the attributes are {list(groups.attributes)}")
    else:
        raise InputError(f"target: with several attributes pass {{attribute: shares}}, for {list(groups.attributes)}")
    target = shares.copy()
    for attribute, attribute_target in by_attribute.items():
        columns = np.flatnonzero(groups.attribute_of == groups.attributes.index(attribute))
        target[columns] = _shares(attribute_target, [groups.names[i] for i in columns])
        bound = float((target[columns] * np.log(target[columns] / shares[columns])).sum())
        if bound > 1e-3:
            warnings.warn(
                f"the target of {attribute!r} differs from the shares in the data: in every clustering the "
                f"size-weighted mean of the fairness errors is at least {bound:.4g}",
                stacklevel=5,
            )
    return target


def _shares(wanted: Any, names: list[Any]) -> NDArray[np.float64]:
    """J target shares in the order of the names."""
    if isinstance(wanted, Mapping):
        if all(isinstance(name, str) for name in names):
            wanted = {str(name): share for name, share in wanted.items()}  # a key 10 may refer to a group "10"
        by_text = {_text(name): name for name in names if isinstance(name, tuple)}
        wanted = {by_text.get(name, name): share for name, share in wanted.items()}
        missing = [name for name in names if name not in wanted]
        unknown = [name for name in wanted if name not in names]
        if missing or unknown:
            mistake = (
                f"lacks group {_shown(missing[0])!r}"
                if missing
                else f"names {_shown(unknown[0])!r}, a group without points"
            )
            raise InputError(f"target {mistake}; the groups are {[_shown(name) for name in names]}")
        wanted = [wanted[name] for name in names]
    try:
        shares = np.asarray(wanted, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"target must be {len(names)} shares or {{group: share}}, not {wanted!r}") from None
    if shares.shape != (len(names),):
        raise InputError(
            f"target has shape {shares.shape}; there are {len(names)} groups: {[_shown(name) for name in names]}"
        )
    if not (np.isfinite(shares) & (shares > 0)).all():
        raise InputError(
            f"target shares must be above 0, not {shares.tolist()}; remove the points of a group that no "
            "cluster should contain"
        )
    if abs(shares.sum() - 1) > _OFF:
        raise InputError(f"target shares sum to {shares.sum():.6g}, not 1")
    exact: NDArray[np.float64] = shares / shares.sum()
    return exact


def _text(name: Any) -> str:
    return " / ".join(map(str, name)) if isinstance(name, tuple) else str(name)


def _shown(name: Any) -> Any:
    """Name of a group for a message; combinations as text, others unchanged."""
    return _text(name) if isinstance(name, tuple) else name


def stable_order(keys: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
    """(n,) stable order of keys (n,), 0 or more; those of two bytes are sorted several times as fast as longer ones."""
    return np.argsort(keys.astype(np.min_scalar_type(int(keys.max(initial=0)))), kind="stable")


def ranks(keys: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
    """(n,) number of earlier elements of keys (n,), 0 or more, that equal each."""
    order = stable_order(keys)
    firsts = np.flatnonzero(np.diff(keys[order], prepend=-1))
    ranks = np.empty(len(keys), dtype=np.int64)
    ranks[order] = np.arange(len(keys)) - np.repeat(firsts, np.diff(firsts, append=len(keys)))
    return ranks


def stratified(cells: NDArray[np.int64], share: float, generator: np.random.Generator) -> NDArray[np.int64]:
    """Indices of random points, of each cell (N,) the same share, rounded up."""
    drawn = generator.permutation(len(cells))
    taken: NDArray[np.int64] = drawn[ranks(cells[drawn]) < np.ceil(np.bincount(cells) * share)[cells[drawn]]]
    return taken
