"""Outputs for a user's own clustered table: the rows with their clusters, and a page."""

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
OTHERS = ("slk_means", "slk_mean_shift")  # suggested if groups depend on the start: the first method that was not used


def check_tables(configs: Sequence[ClusterConfig]) -> list[TableColumns]:
    """Check before clustering that the tables can be clustered and the files written.

    Returns:
        The columns of each distinct table.

    Raises:
        InputError: a table cannot be used, or already has the added columns; n_clusters is missing, or exceeds the
            number of distinct rows; the output is given without a table, for several configs, or cannot be written.
    """
    check_outputs(configs)
    columns: list[TableColumns] = []
    for config in filter(is_table, configs):
        table = _table(config)
        contents = table.contents()
        check_files(config, contents.file, ADDED)
        if (own_columns := TableColumns.of(contents)) not in columns:
            columns.append(own_columns)
        unnamed = table.label is None and not isinstance(config.asked_labels(), str)  # no classes to count clusters
        if config.n_clusters is not None or unnamed:
            check_clusters(contents, config.n_clusters)
    return columns


def write_outputs(result: "Clustered", store: "Store", words: Sequence[str]) -> Written:
    """Write the rows and the page of a clustered table. With known labels, clusters have their names in the rows, and
    numbers with names on the page.

    Args:
        result: the result of a config with dataset=table.
        store: the store, for the default folder.
        words: the settings of the command line that produce this result.
    """
    from runs.own_data.table_page import PageContent, table_page

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
        summary = PageContent(
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
            given=_given_to_method(result.config, known),
            names=() if known is None else known.class_names,
            facts={
                "run in MLflow": result.run_id,
                "identity": result.identity,
                "seed": str(result.config.seed),
                "starts": str(int(trials.given.sum())),
                "columns": "in their standard deviations" if table.scale == "standard" else "not scaled",
                "settings": spell(result.config.method.options),
            },
        )
        write_text(written.page, table_page(summary))
    return written


def _given_to_method(config: ClusterConfig, known: "KnownLabels | None") -> list[str]:
    """Return the known facts about rows given to the method, as objects of the sentence "The method was given ...\""""
    given = [] if known is None else [f"the groups of {int(known.known.sum()):,} rows"]
    if config.links is not None:
        given.append(f"for {config.links:,} pairs of rows, whether they belong together")
    if config.coarse is not None:
        given.append(f"for half of the rows, whether they belong to {' or '.join(map(str, config.coarse))}")
    return given


def _table(config: ClusterConfig) -> "Table":
    return cast("Table", config.dataset.build())
