"""Checks of a user's own table or pictures in `transduce cluster` and `fair`, before anything is clustered."""

import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from clustering.foundation.errors import InputError
from runs.config.cluster import ClusterConfig
from runs.config.fair import FairConfig
from runs.own_data.own_config import DEFAULT_NETWORK
from runs.own_data.page import check_page, check_rows, columns_used

if TYPE_CHECKING:
    from clustering.datasets.table import Contents
    from fairness.datasets.table import Table as FairTable

TABLE, FOLDER, FEATURES = "table", "folder", "features"  # data sets whose points have an output
OF_FEATURES = ("row", "cluster", "confidence")
OF_PICTURES = ("file", "cluster", "confidence", "copy_of")
ADDED = {ClusterConfig: ("cluster", "confidence"), FairConfig: ("cluster",)}  # the columns added to the rows


def is_table(config: ClusterConfig | FairConfig) -> bool:
    """Whether the config clusters a user's own table."""
    return config.dataset.plugin == TABLE


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
    say = functools.cache(say)  # each line once
    for config in configs:
        columns = {FOLDER: OF_PICTURES, FEATURES: OF_FEATURES}.get(config.dataset.plugin)
        if config.output is not None and not (is_table(config) or columns):
            raise InputError(f"output= applies to the rows of a table; add dataset={TABLE} path=FILE, or omit it")
        if config.output is not None and len(configs) > 1:
            raise InputError(
                f"output={config.output}: one file for {len(configs)} clusterings; omit output, or quote a name with a "
                "comma: \"output='a,b.csv'\""
            )
        if columns and config.output is not None:
            check_rows(Path(config.output).expanduser(), columns, "clusters")
        default = isinstance(config, ClusterConfig) and config.backbone is None and config.encoder
        if default:
            say(f"{DEFAULT_NETWORK}; --backbone pixels clusters the pixels")
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
            say(line)
        by_label = isinstance(config, ClusterConfig) and (table.label or isinstance(config.asked_labels(), str))
        if config.n_clusters != "auto" and (config.n_clusters is not None or not by_label):  # classes say how many
            _check_clusters(
                contents, config.n_clusters, "" if isinstance(config, FairConfig) else ", or n_clusters=auto"
            )
        if isinstance(config, FairConfig) and config.method.options.get("small_groups") == "error":
            _check_groups(contents, table, config.n_clusters or 0)


def _check_clusters(contents: "Contents", clusters: int | None, remedy: str) -> None:
    """Check that the number of clusters is given, and at most the number of distinct rows."""
    if clusters is None:
        raise InputError(
            f"{contents.file.path}: the number of clusters is missing; add, for example, n_clusters=3, and try other "
            f"numbers after reading the page{remedy}"
        )
    for values in (contents.values[:1000], contents.values):  # usually the first thousand rows suffice
        distinct = len(pd.DataFrame(values).drop_duplicates())
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
        for column, groups in attributes.items():
            if list(groups.categories) != sorted(groups.categories):
                example = ", ".join(f"{name}: {1 / len(groups.categories):.2g}" for name in groups.categories)
                raise InputError(f"target: name the group of each share of {column!r}, as 'target=[{example}]'")


def _check_groups(contents: "Contents", table: "FairTable", clusters: int) -> None:
    """Check that every group can be in every cluster."""
    for column, groups in table.attributes().items():
        name, count = min(groups.value_counts().items(), key=lambda item: item[1])
        if count < clusters:
            raise InputError(
                f"{contents.file.path}: group {name!r} of column {column!r} has {count} row{'s' * (count != 1)}, "
                f"too few for {clusters} clusters; merge it with another group, remove its rows, reduce n_clusters, or "
                "accept this with small_groups=keep"
            )
