"""A user's own table or pictures in `transduce cluster` and `fair`: checks before, rows and a page after."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from clustering.foundation.errors import InputError
from runs.config.cluster import ClusterConfig
from runs.config.fair import FairConfig
from runs.config.overrides import spell
from runs.own_data.page import as_utf8, check_page, check_rows, columns_used, csv_of, output_path, stem_and_ending
from runs.stages.lineage import short
from runs.storage.disk import write_text

if TYPE_CHECKING:
    from clustering.datasets.table import Contents
    from fairness.datasets.table import Table as FairTable
    from fairness.groups import Groups
    from runs.cache import Store
    from runs.own_data.page import Written
    from runs.stages.clustering.results import Clustered
    from runs.stages.fair.results import FairResult

TABLE, FOLDER = "table", "folder"  # data sets whose points have an output
OF_PICTURES = ("file", "cluster", "confidence")
ADDED = {ClusterConfig: ("cluster", "confidence"), FairConfig: ("cluster",)}  # the columns added to the rows


def is_table(config: ClusterConfig | FairConfig) -> bool:
    """Whether the config clusters a user's own table."""
    return config.dataset.plugin == TABLE


def is_folder(config: ClusterConfig | FairConfig) -> bool:
    """Whether the config clusters a folder of a user's own pictures."""
    return config.dataset.plugin == FOLDER


def check_own_data(configs: Sequence[ClusterConfig | FairConfig], say: Callable[[str], None]) -> None:
    """Check the configs of `transduce cluster` or `fair` before anything is clustered.

    Args:
        configs: the configs.
        say: shows which columns of each distinct table are used, and why others are not.

    Raises:
        InputError: a table cannot be used, or already has the added columns; n_clusters is missing, or exceeds the
            number of distinct rows; a sensitive column cannot be used, or one of its groups has fewer rows than
            clusters; the output is given without a table, for several configs, or cannot be written.
    """
    said = list[str]()
    for config in configs:
        if config.output is not None and not (is_table(config) or is_folder(config)):
            raise InputError(f"output= applies to the rows of a table; add dataset={TABLE} path=FILE, or omit it")
        if config.output is not None and len(configs) > 1:
            raise InputError(f"output={config.output}: one file for {len(configs)} clusterings; omit output")
        if is_folder(config) and config.output is not None:
            check_rows(Path(config.output).expanduser(), OF_PICTURES, "clusters")
        if not is_table(config):
            continue
        table, added = config.dataset.build(), ADDED[type(config)]
        if isinstance(config, FairConfig):
            _check_sensitive(config, table)
        contents: Contents = table.contents()
        if config.output is not None:
            check_page(contents.file.check_output(config.output, added))
        contents.file.check_added(added)
        for line in columns_used(contents):
            if line not in said:
                say(line)
                said.append(line)
        by_label = isinstance(config, ClusterConfig) and (table.label or isinstance(config.asked_labels(), str))
        if config.n_clusters is not None or not by_label:  # classes say how many clusters there are
            _check_clusters(contents, config.n_clusters)
        if isinstance(config, FairConfig) and config.method.options.get("small_groups") == "error":
            _check_groups(contents, table, config.n_clusters or 0)


def _check_clusters(contents: "Contents", clusters: int | None) -> None:
    """Check that the number of clusters is given, and at most the number of distinct rows."""
    if clusters is None:
        raise InputError(
            f"{contents.file.path}: the number of clusters is missing; add, for example, n_clusters=3, and try other "
            "numbers after reading the page"
        )
    for values in (contents.values[:1000], contents.values):  # usually the first thousand rows suffice
        distinct = len({row.tobytes() for row in values + 0.0})  # -0.0 becomes 0.0
        if distinct >= clusters:
            return
    raise InputError(
        f"{contents.file.path}: only {distinct} distinct rows for {clusters} clusters; set n_clusters to at most "
        f"{distinct}"
    )


def _check_sensitive(config: FairConfig, table: "FairTable") -> None:
    """Check the sensitive columns; and require names for target shares if the order of the groups is not alphabetical,
    to avoid confusion."""
    attributes, target = table.attributes(), config.method.options.get("target")
    if isinstance(target, tuple) and not any(isinstance(share, str) for share in target):
        for own in attributes:
            if list(own.names) != sorted(own.names):
                example = ", ".join(f"{name}: {1 / len(own.names):.2g}" for name in own.names)
                raise InputError(f"target: name the group of each share of {own.column!r}, as 'target=[{example}]'")


def _check_groups(contents: "Contents", table: "FairTable", clusters: int) -> None:
    """Check that every group can be in every cluster."""
    for own in table.attributes():
        name, count = min(((name, int((own.values == name).sum())) for name in own.names), key=lambda item: item[1])
        if count < clusters:
            raise InputError(
                f"{contents.file.path}: group {name!r} of column {own.column!r} has {count} row{'s' * (count != 1)}, "
                f"too few for {clusters} clusters; merge it with another group, remove its rows, reduce n_clusters, or "
                "accept this with small_groups=keep"
            )


def write_picture_clusters(result: "Clustered", store: "Store") -> Path:
    """Write file, cluster and confidence of each picture. With given labels, clusters have the names of their classes,
    otherwise numbers."""
    from runs.stages.clustering.results import named_clusters
    from runs.stages.clustering.stage import points_of
    from runs.stages.clustering.trials import known_labels

    config, data, trials = result.config, points_of(result.config), result.trials
    clusters = named_clusters(trials.labels[trials.chosen].astype(np.int64), known_labels(config, data)).tolist()
    confidence = np.full(len(clusters), np.nan) if trials.confidence is None else trials.confidence
    columns = [as_utf8(name) for name in data.names], [as_utf8(str(cluster)) for cluster in clusters], confidence
    name = f"{FOLDER}-{short(config.method)}-{result.n_clusters}-{result.key[:6]}.csv"
    path = output_path(config.output, store, "clusters", name)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, csv_of(pd.DataFrame(dict(zip(OF_PICTURES, columns, strict=True))), 4))
    return path


def write_clusters(result: "Clustered", store: "Store", command: str) -> "Written":
    """Write the rows and the page of a clustered table. With known labels, clusters have their names in the rows, and
    numbers with names on the page.

    Args:
        result: the result of a config with dataset=table.
        store: the store, for the default folder.
        command: the command line that produces this result.
    """
    from runs.own_data.clusters_page import Found, clusters_page
    from runs.stages.clustering.results import named_clusters
    from runs.stages.clustering.trials import known_labels

    config, trials = result.config, result.trials
    table = config.dataset.build()
    contents: Contents = table.contents()
    labels = trials.labels[trials.chosen].astype(np.int64)
    confidence = np.full(len(labels), np.nan) if trials.confidence is None else trials.confidence
    known = None if config.asked_labels() is None else known_labels(config, table.read())
    found = Found(
        contents=contents,
        labels=labels,
        others=[trials.labels[i].astype(np.int64) for i in np.flatnonzero(trials.given) if i != trials.chosen],
        requested=result.n_clusters,
        given=0 if known is None else int(known.known.sum()),
        names=() if known is None else known.class_names,
    )
    added = {"cluster": named_clusters(labels, known), "confidence": np.round(confidence.astype(np.float32), 4)}
    facts = {"starts": str(int(trials.given.sum()))}
    parts = {"title": "Groups in ", **clusters_page(found)}
    return _write(result, contents, store, added, command, facts, parts)


def write_fair_clusters(result: "FairResult", store: "Store", command: str) -> "Written":
    """Write the rows and the page of a table with fair clusters.

    Args:
        result: the result of a config with dataset=table.
        store: the store, for the default folder.
        command: the command line that produces this result.
    """
    from runs.own_data.fairness_page import FairClusters, fairness_page
    from runs.stages.fair.stage import knows_groups

    config, found = result.config, result.found
    table: FairTable = config.dataset.build()
    data, aware = table.read(), knows_groups(config.method.kind)
    positive = np.flatnonzero(found.weights > 0)  # a single given weight is the selected one
    place = int(positive[0]) if config.fairness_weight is not None and len(positive) == 1 else found.chosen
    price, weights = float(found.price[place]) if aware else np.nan, None
    if not np.isnan(found.weights).any():
        weights = pd.DataFrame(
            {
                "fairness_weight (* this page)": [
                    f"{weight:.4g}{' *' * (row == place)}" for row, weight in enumerate(found.weights)
                ],
                "price": [f"{one:.4g}" for one in found.price],
                "fairness error": [f"{one:.4g}" for one in found.fairness_error],
                "least balance": [f"{one:.3f}" for one in found.balance_min],
                "groups missing": found.absent,
                "clusters without rows": result.n_clusters - found.clusters,
                "converged": np.where(found.converged, "yes", "no"),
            }
        )
    clusters = FairClusters(
        contents=table.contents(),
        requested=result.n_clusters,
        groups=_groups(result, data.sensitive, len(data.values)),
        labels=found.labels[place].astype(np.int64),
        unfair=found.labels[0].astype(np.int64) if found.weights[0] == 0 else None,
        aware=aware,
        settled=bool(found.converged[place]),
        weights=weights,
    )
    facts = {
        "fairness error": f"{found.fairness_error[place]:.4g} (sum of KL over clusters, in nats)",
        **({} if np.isnan(price) else {"price of fairness": f"{price:.4g} of the objective without"}),
        "minimum balance": f"{found.balance_min[place]:.3f} (whole table {found.data_balance:.3f})",
    }
    parts = {"title": "Fair clusters in " if aware else "Groups in the clusters of ", **fairness_page(clusters)}
    return _write(result, clusters.contents, store, {"cluster": clusters.labels}, command, facts, parts)


def _write(
    result: "Clustered | FairResult",
    contents: "Contents",
    store: "Store",
    added: Mapping[str, Any],
    command: str,
    facts: Mapping[str, str],
    parts: dict[str, Any],
) -> "Written":
    """Write the rows with the added columns, and the page: both of them, or none."""
    from runs.own_data.page import method_name, write_page

    config, file = result.config, contents.file
    stem, ending = stem_and_ending(file.path)
    name = f"{stem}-{short(config.method)}-{result.n_clusters}-{result.key[:6]}{ending}"
    rows = output_path(config.output, store, "clusters", name)
    page = {
        **parts,
        "title": parts["title"] + file.path.name,
        "method": method_name(config.method),
        "command": command,
        "facts": {
            "rows with their clusters": rows.name,
            "run in MLflow": result.run_id,
            "identity": result.key,
            "seed": str(config.seed),
            "columns": "not scaled" if config.dataset.options["scale"] is None else "in their standard deviations",
            **facts,
            "settings": spell(config.method.options),
        },
    }
    written = write_page(rows, lambda path: file.save(path, added, contents.rows), page)
    return replace(written, columns=columns_used(contents))


def _groups(result: "FairResult", sensitive: Any, rows: int) -> "Groups":
    """The groups of the sensitive columns, or of their combinations, with their target."""
    from fairness.groups import groups_of

    crossed = bool(result.config.method.options.get("intersectional"))
    groups = replace(groups_of(sensitive, rows, intersectional=crossed), target=result.found.target)
    if not groups.crossed:
        return groups
    return replace(groups, names=tuple(map(" / ".join, groups.names)), attributes=(" / ".join(groups.crossed),))
