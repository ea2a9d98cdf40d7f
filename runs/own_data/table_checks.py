"""Checks, before the clustering of a user's own table, that it can be clustered and that its output can be written."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clustering.files.regular import head_of
from clustering.foundation.errors import InputError
from runs.config.cluster import ClusterConfig
from runs.config.fair import FairConfig
from runs.own_data.table_columns import TableColumns

if TYPE_CHECKING:
    from clustering.datasets.table import Contents
    from fairness.datasets.table import Table as FairTable

TABLE = "table"  # the data set
OWN = (TABLE, "folder")  # data sets whose points have an output
ADDED = {"cluster": ("cluster", "confidence"), "fair": ("cluster",)}  # the added columns, by verb
TABLE_KEYS = {"numeric_bins": "bins=4"}  # fields of a method that have no effect on a table, and the key to use instead
PAGE_MARK = b'<meta name="generator" content="transduce">'  # contained in every page


def is_table(config: ClusterConfig | FairConfig) -> bool:
    """Return whether the config clusters a user's own table."""
    return config.dataset.plugin == TABLE


def check_tables(configs: Sequence[ClusterConfig]) -> list[TableColumns]:
    """Check the configs of `transduce cluster`.

    Returns:
        The columns of each distinct table.

    Raises:
        InputError: a table cannot be used, or already has the added columns; n_clusters is missing, or exceeds the
            number of distinct rows; the output is given without a table, for several configs, or cannot be written.
    """
    columns: list[TableColumns] = []
    for config, table in _tables(configs):
        contents = _check_files(config, table, ADDED["cluster"], columns)
        unnamed = table.label is None and not isinstance(config.asked_labels(), str)  # no classes to count clusters
        if config.n_clusters is not None or unnamed:
            _check_clusters(contents, config.n_clusters)
    return columns


def check_fair_tables(configs: Sequence[FairConfig]) -> list[TableColumns]:
    """Check the configs of `transduce fair`.

    Returns:
        The columns of each distinct table.

    Raises:
        InputError: as in `check_tables`; or a sensitive column cannot be used, or one of its groups has fewer rows than
            clusters.
    """
    columns: list[TableColumns] = []
    for config, table in _tables(configs):
        for name, instead in TABLE_KEYS.items():
            if config.method.options.get(name) not in (None, "error"):
                raise InputError(f"{name} has no effect on a table, because its groups are text; use {instead} instead")
        _check_target(config, table)
        contents = _check_files(config, table, ADDED["fair"], columns)
        _check_clusters(contents, config.n_clusters)
        if config.method.options.get("small_groups") == "error":
            _check_groups(contents, table, config.n_clusters or 0)
    return columns


def check_page(page: Path, output: str) -> None:
    """Check that the page of an output overwrites only such a page.

    Raises:
        InputError: the page is another file.
    """
    if os.path.lexists(page) and PAGE_MARK not in head_of(page):
        raise InputError(
            f"output={output}: its page would overwrite {page}, which is another file; give another name, or move that "
            "file"
        )


def page_beside(rows: Path) -> Path:
    """Return the path of the page beside the rows."""
    return rows.with_name(f"{stem_and_ending(rows)[0]}.html")


def stem_and_ending(path: Path) -> tuple[str, str]:
    """Split a file name into stem and ending, where .csv.gz is one ending."""
    stem = Path(path.name.removesuffix(".gz")).stem
    return stem, path.name.removeprefix(stem)


def _tables(configs: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
    """Return the configs of tables, with the built tables."""
    asked = [config for config in configs if config.output is not None]
    if any(config.dataset.plugin not in OWN for config in asked):
        raise InputError(f"output= applies to the rows of a table; add dataset={TABLE} path=FILE, or omit it")
    if asked and len(configs) > 1:
        raise InputError(f"output={asked[0].output}: one file for {len(configs)} clusterings; omit output")
    return ((config, config.dataset.build()) for config in configs if is_table(config))


def _check_files(
    config: ClusterConfig | FairConfig, table: Any, added: Sequence[str], columns: list[TableColumns]
) -> "Contents":
    """Check that the table can be read, and its rows written with the added columns; note its columns in `columns`."""
    contents: Contents = table.contents()
    if config.output is not None:
        check_page(page_beside(contents.file.check_output(config.output, added)), config.output)
    contents.file.check_added(added)
    if (own := TableColumns.of(contents)) not in columns:
        columns.append(own)
    return contents


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


def _check_target(config: FairConfig, table: "FairTable") -> None:
    """Check the sensitive columns; and require names for target shares if the order of the groups is not alphabetical,
    to avoid confusion."""
    attributes, target = table.attributes(), config.method.options.get("target")
    if not isinstance(target, tuple) or any(isinstance(share, str) for share in target):
        return
    for own in attributes:
        if list(own.names) != sorted(own.names):
            named = ", ".join(f"{name}: {1 / len(own.names):.2g}" for name in own.names)
            raise InputError(f"target: name the group of each share of {own.column!r}, as 'target=[{named}]'")


def _check_groups(contents: "Contents", table: "FairTable", clusters: int) -> None:
    """Check that every group can be in every cluster."""
    for own in table.attributes():
        counts = {name: int((own.values == name).sum()) for name in own.names}
        name, count = min(counts.items(), key=lambda item: item[1])
        if count < clusters:
            rows = "one row" if count == 1 else f"{count} rows"
            raise InputError(
                f"{contents.file.path}: group {name!r} of column {own.column!r} has {rows}, too few for {clusters} "
                "clusters; merge it with another group, remove its rows, reduce n_clusters, or accept this with "
                "small_groups=keep"
            )
