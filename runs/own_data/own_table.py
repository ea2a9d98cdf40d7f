"""What a person gets for a table of their own: the same rows with their clusters, and a page about these."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

import numpy as np

from runs.config.cluster import ClusterConfig
from runs.config.overrides import spell
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
)
from runs.stages.clustering.results import named_clusters
from runs.stages.clustering.trials import known_labels
from runs.stages.lineage import short
from runs.storage.store import write_text

if TYPE_CHECKING:
    from clustering.datasets.table import Table
    from clustering.evaluation.known_labels import KnownLabels
    from runs.stages.clustering.results import Clustered
    from runs.storage.store import Store

ADDED = ("cluster", "confidence")
OTHERS = ("slk_means", "slk_mean_shift")  # methods to try where groups hang on the start: one, or else the other


def check_tables(configs: Sequence[ClusterConfig]) -> list[TableColumns]:
    """That tables can be clustered and the files written: to be asked before anything is done. Gives what is done with
    their columns, each answer once.

    Raises:
        InputError: a table that cannot be used, or has the added columns already; no number of clusters, or more than
            there are different rows; an output without a table, for several configs, or that cannot be written.
    """
    check_outputs(configs)
    columns: list[TableColumns] = []
    for config in filter(is_table, configs):
        table = _table(config)
        contents = table.contents()
        check_files(config, contents.file, ADDED)
        if (told := TableColumns.of(contents)) not in columns:
            columns.append(told)
        unnamed = table.label is None and not isinstance(config.asked_labels(), str)  # whose classes say how many
        if config.n_clusters is not None or unnamed:
            check_clusters(contents, config.n_clusters)
    return columns


def write_outputs(result: "Clustered", store: "Store", words: Sequence[str]) -> Written:
    """Write the rows and the page of a clustered table. Clusters have the names of known labels; on the page numbers
    with these names beside.

    Args:
        result: of a config whose data set is a table.
        store: where they are written, unless the config says where.
        words: what makes this one result, as it was typed.
    """
    from runs.own_data.table_page import Found, table_page

    table = _table(result.config)
    contents = table.contents()
    trials = result.trials
    labels = trials.labels[trials.chosen].astype(np.int64)
    confidence = trials.confidence
    if confidence is None:
        confidence = np.full(len(labels), np.nan, dtype=np.float32)
    known = None if result.config.asked_labels() is None else known_labels(result.config, table.read())
    others = [trials.labels[i].astype(np.int64) for i in np.flatnonzero(trials.given) if i != trials.chosen]
    written = places(result.config, result.n_clusters, result.identity, contents, store)
    with store.watched():
        written.rows.parent.mkdir(parents=True, exist_ok=True)
        named = {"cluster": named_clusters(labels, known), "confidence": np.round(confidence, 4)}
        contents.file.save(written.rows, named, contents.rows)
        found = Found(
            contents=contents,
            labels=labels,
            confidence=confidence,
            others=others,
            clusters=result.n_clusters,
            method=method_name(result.config),
            command=command("cluster", words, {}),
            other_method=command("cluster", words, {"method": OTHERS[short(result.config.method) == OTHERS[0]]}),
            next_commands={
                count: command("cluster", words, {"n_clusters": str(count)})
                for count in (result.n_clusters - 1, result.n_clusters + 1)
                if 2 <= count <= len(labels)
            },
            output=written.rows.name,
            classes=None
            if table.label is None
            else contents.file.column(table.label).astype("str").to_numpy()[contents.rows],
            told=_told(result.config, known),
            names=() if known is None else known.class_names,
            facts={
                "run in MLflow": result.run_id,
                "identity": result.identity,
                "seed": str(result.config.seed),
                "starts": str(int(trials.given.sum())),
                "columns": "in their standard deviations" if table.scale == "standard" else "as they are",
                "settings": spell(result.config.method.options),
            },
        )
        write_text(written.page, table_page(found))
    return written


def _told(config: ClusterConfig, known: "KnownLabels | None") -> list[str]:
    """What the method was told of rows, in words that follow "The computer was told"."""
    found = [] if known is None else [f"the groups of {int(known.known.sum()):,} rows"]
    if config.links is not None:
        found.append(f"of {config.links:,} pairs of rows whether they belong together")
    if config.coarse is not None:
        found.append(f"of half of the rows whether they are of {' or '.join(map(str, config.coarse))}")
    return found


def _table(config: ClusterConfig) -> "Table":
    return cast("Table", config.dataset.build())
