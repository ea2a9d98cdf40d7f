"""What a person gets for a table of their own: the same rows with their clusters, and a page about these."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np

from clustering.errors import InputError
from runs.cluster_config import ClusterConfig
from runs.groups import comment
from runs.lineage import short
from runs.overrides import spell
from runs.store import write_text

if TYPE_CHECKING:
    from clustering.datasets.table import Contents, Table
    from clustering.row_files import RowFile
    from runs.clustering_results import Clustered
    from runs.store import Store

TABLE = "table"  # the data set
ADDED = ("cluster", "confidence")
OTHERS = ("slk_means", "slk_mean_shift")  # methods to try where groups hang on the start: one, or else the other


@dataclass(frozen=True)
class Written:
    """The two files of a clustered table."""

    rows: Path
    page: Path


def is_table(config: ClusterConfig) -> bool:
    """Whether it clusters a table of one's own."""
    return config.dataset.plugin == TABLE


def check_tables(configs: Sequence[ClusterConfig]) -> None:
    """That tables can be clustered and the files written: to be asked before anything is done.

    Raises:
        InputError: a table that cannot be used, or has the added columns already; no number of clusters, or more than
            there are different rows; an output without a table, for several configs, or that cannot be written.
    """
    tables = [config for config in configs if is_table(config)]
    asked = [config for config in configs if config.output is not None]
    if len(asked) > len(tables):
        raise InputError(f"output= is for the rows of a table; add dataset={TABLE} path=FILE, or leave it out")
    if asked and len(configs) > 1:
        raise InputError(f"output={asked[0].output}: one file, but {len(configs)} clusterings; leave output out")
    for config in tables:
        table = _table(config)
        contents = table.contents()
        if config.output is not None:
            contents.file.check_output(config.output, ADDED)
        contents.file.check_added(ADDED)
        if config.n_clusters is None and table.label is None:
            raise InputError(
                f"{contents.file.path}: say how many clusters to find; add n_clusters=3, say, and try others when you "
                "have seen the page about these"
            )
        if config.n_clusters is not None:
            _check_distinct(contents, config.n_clusters)


def _check_distinct(contents: "Contents", clusters: int) -> None:
    """That there are different rows enough, of which the first thousand may do."""
    import pandas as pd

    for values in (contents.values[:1000], contents.values):
        distinct = len(pd.DataFrame(values).drop_duplicates())
        if distinct >= clusters:
            return
    raise InputError(
        f"{contents.file.path}: {distinct} different rows for {clusters} clusters; set n_clusters to at most {distinct}"
    )


def write_outputs(result: "Clustered", store: "Store", typed: Sequence[str]) -> Written:
    """Write the rows and the page of a clustered table.

    Args:
        result: of a config whose data set is a table.
        store: where they are written, unless the config says where.
        typed: what makes this one result, as it was typed.
    """
    from runs.report.table_page import Found, table_page

    table = _table(result.config)
    contents = table.contents()
    trials = result.trials
    labels = trials.labels[trials.chosen].astype(np.int64)
    confidence = trials.confidence
    if confidence is None:
        confidence = np.full(len(labels), np.nan, dtype=np.float32)
    others = [trials.labels[i].astype(np.int64) for i in np.flatnonzero(trials.given) if i != trials.chosen]
    rows, page = _places(result, contents.file, store)
    with store.watched():
        rows.parent.mkdir(parents=True, exist_ok=True)
        contents.file.save(rows, {"cluster": labels, "confidence": np.round(confidence, 4)})
        found = Found(
            contents=contents,
            labels=labels,
            confidence=confidence,
            others=others,
            clusters=result.n_clusters,
            method=_method(result.config),
            command=_command(typed),
            other_method=_command(typed, method=OTHERS[short(result.config.method) == OTHERS[0]]),
            next_commands={
                count: _command(typed, n_clusters=str(count))
                for count in (result.n_clusters - 1, result.n_clusters + 1)
                if 2 <= count <= len(labels)
            },
            output=rows.name,
            classes=None if table.label is None else contents.file.column(table.label).astype("str").to_numpy(),
            facts={
                "run in MLflow": result.run_id,
                "identity": result.identity,
                "seed": str(result.config.seed),
                "starts": str(int(trials.given.sum())),
                "columns": "in their standard deviations" if table.scale == "standard" else "as they are",
                "settings": spell(result.config.method.options),
            },
        )
        write_text(page, table_page(found))
    return Written(rows, page)


def _table(config: ClusterConfig) -> "Table":
    return cast("Table", config.dataset.build())


def _places(result: "Clustered", file: "RowFile", store: "Store") -> tuple[Path, Path]:
    """Where the rows and the page are written."""
    if result.config.output is not None:
        rows = Path(result.config.output)
        return rows, rows.with_name(f"{_stem(rows)}.html")
    stem = f"{_stem(file.path)}-{short(result.config.method)}-{result.n_clusters}-{result.identity[:6]}"
    ending = file.path.name.removeprefix(_stem(file.path))
    return store.root / "clusters" / f"{stem}{ending}", store.root / "clusters" / f"{stem}.html"


def _stem(path: Path) -> str:
    """Its name without the ending, of which .csv.gz is one."""
    return Path(path.name.removesuffix(".gz")).stem


def _method(config: ClusterConfig) -> str:
    return f"{short(config.method)}, {comment('method', config.method.name).rstrip('.')}"


def _command(typed: Sequence[str], **changed: str) -> str:
    """What to type for the same with some keys changed, and then with files of its own."""
    dropped = tuple(f"{name}=" for name in (*changed, *(["output"] if changed else [])))
    kept = [word for word in typed if not word.startswith(dropped)]
    return shlex.join(["transduce", "cluster", *kept, *(f"{name}={value}" for name, value in changed.items())])
