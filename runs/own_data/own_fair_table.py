"""Outputs for a user's own table with fair clusters: the rows with their clusters, and a page."""

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np

from clustering.foundation.errors import InputError
from runs.config.fair import FairConfig
from runs.config.overrides import spell, write
from runs.own_data.table_columns import TableColumns
from runs.own_data.table_outputs import (
    Written,
    check_clusters,
    check_files,
    check_outputs,
    command,
    is_table,
    method_name,
    places,
    stem_and_ending,
)
from runs.storage.store import write_text

if TYPE_CHECKING:
    from fairness.datasets.table import Attribute, Table
    from runs.stages.fair.results import FairResult, TradeOff
    from runs.storage.store import Store

ADDED = ("cluster",)
TABLE_KEYS = {"numeric_bins": "bins=4"}  # fields of a method that have no effect on a table, and the key to use instead
MORE = 10.0  # factor of the largest weight, for the suggestion of a larger weight

Fit = Callable[[FairConfig], "FairResult"]
"""Function that clusters one config, or reads its result from the record."""


def check_fair_tables(configs: Sequence[FairConfig]) -> list[TableColumns]:
    """Check before clustering that the tables can be clustered and the files written.

    Returns:
        The columns of each distinct table.

    Raises:
        InputError: a table cannot be used, or already has a column `cluster`; n_clusters is missing, or exceeds the
            number of distinct rows or the rows of a group; the output is given without a table, for several configs, or
            cannot be written.
    """
    check_outputs(configs)
    columns: list[TableColumns] = []
    for config in filter(is_table, configs):
        for name, instead in TABLE_KEYS.items():
            if config.method.options.get(name) not in (None, "error"):
                raise InputError(f"{name} has no effect on a table, because its groups are text; use {instead} instead")
        table = _table(config)
        attributes = table.attributes()
        _check_target(config, attributes)
        contents = table.contents()
        check_files(config, contents.file, ADDED)
        if (own_columns := TableColumns.of(contents)) not in columns:
            columns.append(own_columns)
        check_clusters(contents, config.n_clusters)
        if config.n_clusters and config.method.options.get("small_groups") == "error":
            for own in attributes:
                _check_smallest(str(contents.file.path), own, config.n_clusters)
    return columns


def write_fair_outputs(result: "FairResult", store: "Store", words: Sequence[str], fit: Fit) -> Written:
    """Write the rows and the page of a table with fair clusters.

    Args:
        result: the result of a config with dataset=table.
        store: the store, for the default folder.
        words: the settings of the command line that produce this result.
        fit: computes the clusters without fairness for a method without weights.
    """
    from runs.own_data.fair_change import FairFound
    from runs.own_data.fair_page import fair_page
    from runs.stages.fair.stage import knows_groups

    config, found = result.config, result.found
    table = _table(config)
    contents = table.contents()
    place = selected_weight(result)
    weights, labels, chosen = found.weights.tolist(), found.labels, place
    settled = found.converged.tolist()
    aware, target = knows_groups(config.method.kind), _target(result, table)
    if weights[0] != 0 and aware:
        unfair = fit(_unfair(result)).found.labels[:1]
        weights, labels, chosen = [0.0, *weights], np.concatenate([unfair, labels]), chosen + 1
        settled = [True, *settled]
    written = places(config, result.n_clusters, result.identity, contents, store)
    with store.watched():
        written.rows.parent.mkdir(parents=True, exist_ok=True)
        contents.file.save(written.rows, {"cluster": labels[chosen].astype(np.int64)}, contents.rows)
        page = FairFound(
            contents=contents,
            attributes=_attributes(config, table),
            points=table.read().values,
            weights=weights,
            labels=labels,
            chosen=chosen,
            clusters=result.n_clusters,
            method=method_name(config),
            command=command("fair", words, {}),
            commands=[_at(weight, words, config) for weight in weights],
            more=_at(MORE * weights[-1], words, config),
            output=written.rows.name,
            aware=aware,
            settled=settled,
            target=target,
            facts={
                "run in MLflow": result.run_id,
                "identity": result.identity,
                "seed": str(config.seed),
                "columns": "in their standard deviations" if table.scale == "standard" else "not scaled",
                "fairness error": f"{found.fairness_error[place]:.4g} (sum of KL over clusters, in nats)",
                **_price(float(found.price[place]) if aware else math.nan),
                **({} if target is None else {"least fairness error": f"{_least(found):.4g} (lower bound)"}),
                "minimum balance": f"{found.balance_min[place]:.3f} (whole table {found.data_balance:.3f})",
                "settings": spell(config.method.options),
            },
        )
        write_text(written.page, fair_page(page))
    return written


def selected_weight(result: "FairResult") -> int:
    """Return the index of the selected weight: the only given one, otherwise the smallest with the least error."""
    positive = np.flatnonzero(result.found.weights > 0)
    asked = result.config.fairness_weight is not None and len(positive) == 1
    return int(positive[0]) if asked else result.found.chosen


def _at(weight: float, words: Sequence[str], config: FairConfig) -> str:
    """Return the command line for one weight; if an output is given, with its own output file."""
    from runs.own_data.fair_words import weight_name

    changed = {"fairness_weight": weight_name(weight)}
    if config.output is not None:
        rows = Path(config.output)
        stem, ending = stem_and_ending(rows)
        changed["output"] = write(str(rows.with_name(f"{stem}-{weight_name(weight)}{ending}")))
    return command("fair", words, changed)


def _least(found: "TradeOff") -> float:
    """Return a lower bound of the fairness error.

    It holds because the clusters' shares, weighted by size, average to those of the whole table, and KL is convex.
    """
    shares = found.group_sizes / found.labels.shape[1]
    return float((found.target * np.log(found.target / shares)).sum())


def _price(price: float) -> dict[str, str]:
    """Return the price of fairness for the page; empty if unknown."""
    return {} if math.isnan(price) else {"price of fairness": f"{price:.4g} of the objective without"}


def _unfair(result: "FairResult") -> FairConfig:
    """Return the config of a method that minimises the same objective without fairness."""
    from fairness.methods import UNFAIR
    from runs.config.groups import option

    method = option("fair_method", UNFAIR.get(result.kind, UNFAIR["kmeans"]))
    return result.config.replace(method=method, fairness_weight=(0.0,), output=None)


def _attributes(config: FairConfig, table: "Table") -> "list[Attribute]":
    """Return the sensitive attributes: the sensitive columns, or their combinations."""
    from fairness.datasets.table import Attribute

    own = table.attributes()
    if len(own) < 2 or not config.method.options.get("intersectional"):
        return own
    rows = list(zip(*(attribute.values.tolist() for attribute in own), strict=True))
    values = np.array([" / ".join(row) for row in rows])
    order = sorted(set(rows), key=lambda row: [of.names.index(name) for of, name in zip(own, row, strict=True)])
    return [Attribute(" / ".join(table.sensitive), values, tuple(" / ".join(row) for row in order))]


def _target(result: "FairResult", table: "Table") -> dict[tuple[str, str], float] | None:
    """Return the target shares by attribute and group; None if they are those of the table."""
    if result.config.method.options.get("target") is None:
        return None
    keys = [(own.column, group) for own in _attributes(result.config, table) for group in own.names]
    return dict(zip(keys, result.found.target.tolist(), strict=True))


def _check_target(config: FairConfig, attributes: "Sequence[Attribute]") -> None:
    """Require names for target shares if the order of the groups is not alphabetical, to avoid confusion."""
    target = config.method.options.get("target")
    if not isinstance(target, tuple) or any(isinstance(share, str) for share in target):
        return
    for own in attributes:
        if list(own.names) != sorted(own.names):
            named = ", ".join(f"{name}: {1 / len(own.names):.2g}" for name in own.names)
            raise InputError(f"target: name the group of each share of {own.column!r}, as 'target=[{named}]'")


def _check_smallest(path: str, own: "Attribute", clusters: int) -> None:
    counts = {name: int((own.values == name).sum()) for name in own.names}
    name = min(counts, key=counts.__getitem__)
    if counts[name] < clusters:
        rows = "one row" if counts[name] == 1 else f"{counts[name]} rows"
        raise InputError(
            f"{path}: group {name!r} of column {own.column!r} has {rows}, too few for {clusters} clusters; merge it "
            "with another group, remove its rows, reduce n_clusters, or accept this with small_groups=keep"
        )


def _table(config: FairConfig) -> "Table":
    return cast("Table", config.dataset.build())
