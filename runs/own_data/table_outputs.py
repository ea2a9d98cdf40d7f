"""Outputs for a user's own clustered table: the rows with their clusters, and a page beside them."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from runs.config.cluster import ClusterConfig
from runs.config.fair import FairConfig
from runs.config.overrides import spell, write
from runs.own_data.table_checks import stem_and_ending
from runs.own_data.table_columns import TableColumns
from runs.stages.clustering.results import named_clusters
from runs.stages.clustering.trials import known_labels
from runs.stages.lineage import short

if TYPE_CHECKING:
    from clustering.datasets.table import Contents
    from clustering.evaluation.known_labels import KnownLabels
    from fairness.datasets.dataset import FairDataset
    from fairness.datasets.table import Table as FairTable
    from fairness.groups import Groups
    from runs.cache import Store
    from runs.own_data.page import Command, Written
    from runs.stages.clustering.results import Clustered
    from runs.stages.fair.results import FairResult

OTHERS = ("slk_means", "slk_mean_shift")  # suggested if groups depend on the start: the first method that was not used

Fit = Callable[[FairConfig], "FairResult"]
"""Function that clusters one config, or reads its result from the record."""


def write_clusters(result: "Clustered", store: "Store", settings: Sequence[str]) -> "Written":
    """Write the rows and the page of a clustered table. With known labels, clusters have their names in the rows, and
    numbers with names on the page.

    Args:
        result: the result of a config with dataset=table.
        store: the store, for the default folder.
        settings: the settings of the command line that produce this result.
    """
    from runs.own_data.clusters import Found, clusters_page
    from runs.own_data.page import Command

    config, trials = result.config, result.trials
    table = config.dataset.build()
    contents: Contents = table.contents()
    labels = trials.labels[trials.chosen].astype(np.int64)
    unknown = np.full(len(labels), np.nan, dtype=np.float32)
    confidence = unknown if trials.confidence is None else trials.confidence
    known = None if config.asked_labels() is None else known_labels(config, table.read())
    named = table.label is not None
    found = Found(
        labels=labels,
        others=[trials.labels[i].astype(np.int64) for i in np.flatnonzero(trials.given) if i != trials.chosen],
        requested=result.n_clusters,
        classes=contents.file.column(table.label).astype("str").to_numpy()[contents.rows] if named else None,
        given=_given_to_method(config, known),
        names=() if known is None else known.class_names,
    )
    command = Command("cluster", settings)
    page = clusters_page(contents, found, command, OTHERS[short(config.method) == OTHERS[0]])
    added = {"cluster": named_clusters(labels, known), "confidence": np.round(confidence, 4)}
    facts = {"starts": str(int(trials.given.sum()))}
    return _write(result, contents, store, added, command, facts, {"title": "Groups in ", **page})


def write_fair_clusters(result: "FairResult", store: "Store", settings: Sequence[str], fit: Fit) -> "Written":
    """Write the rows and the page of a table with fair clusters.

    Args:
        result: the result of a config with dataset=table.
        store: the store, for the default folder.
        settings: the settings of the command line that produce this result.
        fit: computes the clusters without fairness for a method without weights.
    """
    from runs.own_data.fairness import FairClusters, fairness_page
    from runs.own_data.page import Command
    from runs.stages.fair.stage import knows_groups

    config, found = result.config, result.found
    table: FairTable = config.dataset.build()
    data = table.read()
    place = _selected_weight(result)
    weights, labels, settled, chosen = found.weights.tolist(), found.labels, found.converged.tolist(), place
    aware = knows_groups(config.method.kind)
    if weights[0] != 0 and aware:
        unfair = fit(_unfair(result)).found.labels[:1]
        weights, labels, settled = [0.0, *weights], np.concatenate([unfair, labels]), [True, *settled]
        chosen = place + 1
    price = float(found.price[place]) if aware else math.nan
    command = Command("fair", settings)
    clusters = FairClusters(
        contents=table.contents(),
        requested=result.n_clusters,
        groups=_groups(result, data),
        points=data.values,
        weights=weights,
        labels=labels,
        chosen=chosen,
        aware=aware,
        settled=settled,
    )
    facts = {
        "fairness error": f"{found.fairness_error[place]:.4g} (sum of KL over clusters, in nats)",
        **({} if math.isnan(price) else {"price of fairness": f"{price:.4g} of the objective without"}),
        "minimum balance": f"{found.balance_min[place]:.3f} (whole table {found.data_balance:.3f})",
    }
    page = fairness_page(clusters, lambda weight: _at(weight, command, config.output))
    added = {"cluster": labels[chosen].astype(np.int64)}
    title = "Fair clusters in " if aware else "Groups in the clusters of "
    return _write(result, clusters.contents, store, added, command, facts, {"title": title, **page})


def settings_of(
    config: ClusterConfig | FairConfig, configs: Sequence[ClusterConfig | FairConfig], settings: Sequence[str]
) -> list[str]:
    """Return the settings of the command line if they produce one result, otherwise those of this config alone."""
    return list(settings) if len(configs) == 1 else config.arguments()


def _write(
    result: "Clustered | FairResult",
    contents: "Contents",
    store: "Store",
    added: Mapping[str, Any],
    command: "Command",
    facts: Mapping[str, str],
    parts: dict[str, Any],
) -> "Written":
    """Write the rows with the added columns, and the page: both of them, or none."""
    from runs.own_data.page import Page, method_name

    config, file = result.config, contents.file
    if config.output is not None:
        rows = Path(config.output)
    else:
        stem, ending = stem_and_ending(file.path)
        name = f"{stem}-{short(config.method)}-{result.n_clusters}-{result.key[:6]}{ending}"
        rows = store.root / "clusters" / name
    page = Page(
        **parts | {"title": parts["title"] + file.path.name},
        method=method_name(config.method),
        command=command,
        facts={
            "rows with their clusters": rows.name,
            "run in MLflow": result.run_id,
            "identity": result.key,
            "seed": str(config.seed),
            "columns": "not scaled" if config.dataset.options["scale"] is None else "in their standard deviations",
            **facts,
            "settings": spell(config.method.options),
        },
    )
    written = page.write(rows, lambda path: file.save(path, added, contents.rows), store)
    return replace(written, columns=TableColumns.of(contents))


def _given_to_method(config: ClusterConfig, known: "KnownLabels | None") -> list[str]:
    """Return the known facts about rows given to the method, as objects of the sentence "The method was given ...\""""
    given = [] if known is None else [f"the groups of {int(known.known.sum()):,} rows"]
    if config.links is not None:
        given.append(f"for {config.links:,} pairs of rows, whether they belong together")
    if config.coarse is not None:
        given.append(f"for half of the rows, whether they belong to {' or '.join(map(str, config.coarse))}")
    return given


def _selected_weight(result: "FairResult") -> int:
    """Return the index of the selected weight: the only given one, otherwise the smallest with the least error."""
    positive = np.flatnonzero(result.found.weights > 0)
    asked = result.config.fairness_weight is not None and len(positive) == 1
    return int(positive[0]) if asked else result.found.chosen


def _at(weight: float, command: "Command", output: str | None) -> str:
    """Return the command line for one weight; if an output is given, with its own output file."""
    from runs.own_data.page import weight_name

    changed = {"fairness_weight": weight_name(weight)}
    if output is not None:
        stem, ending = stem_and_ending(Path(output))
        changed["output"] = write(str(Path(output).with_name(f"{stem}-{weight_name(weight)}{ending}")))
    return command.changed(**changed)


def _unfair(result: "FairResult") -> FairConfig:
    """Return the config of a method that minimises the same objective without fairness."""
    from fairness.methods import UNFAIR
    from runs.config.groups import option

    method = option("fair_method", UNFAIR.get(result.kind, UNFAIR["kmeans"]))
    return result.config.replace(method=method, fairness_weight=(0.0,), output=None)


def _groups(result: "FairResult", data: "FairDataset") -> "Groups":
    """Return the groups of the sensitive columns, or of their combinations, with their target."""
    from fairness.groups import groups_of

    crossed = bool(result.config.method.options.get("intersectional"))
    groups = replace(groups_of(data.sensitive, len(data.values), intersectional=crossed), target=result.found.target)
    if not groups.crossed:
        return groups
    return replace(groups, names=tuple(map(" / ".join, groups.names)), attributes=(" / ".join(groups.crossed),))
