"""Shared parts of the outputs for a user's own clustered table: paths of rows and page, and checks."""

import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from clustering.files.regular import head_of
from clustering.foundation.errors import InputError
from runs.config.groups import Choice, comment
from runs.own_data.table_columns import TableColumns
from runs.stages.lineage import short

if TYPE_CHECKING:
    from clustering.datasets.table import Contents
    from clustering.files.tables import RowFile
    from runs.storage.store import Store

TABLE = "table"  # the data set
OWN = (TABLE, "folder")  # data sets whose points have an output
PAGE_MARK = b'<meta name="generator" content="transduce">'
"""Contained in every page written beside rows; a page without it is never overwritten."""


class TableConfig(Protocol):
    """A config that may have dataset=table."""

    @property
    def dataset(self) -> Choice:
        """The data set."""

    @property
    def method(self) -> Choice:
        """The method."""

    @property
    def output(self) -> str | None:
        """The file for the rows."""

    def arguments(self) -> list[str]:
        """Return the command-line arguments of the config."""


@dataclass(frozen=True)
class Written:
    """The output files of a clustered table, and the summary of its columns."""

    rows: Path
    page: Path
    columns: TableColumns

    def record(self) -> dict[str, Any]:
        """Return the record as a dictionary for JSON."""
        return {"rows": str(self.rows), "page": str(self.page), "columns": self.columns.record()}


def is_table(config: TableConfig) -> bool:
    """Return whether the config clusters a user's own table."""
    return config.dataset.plugin == TABLE


def check_outputs(configs: Sequence[TableConfig]) -> None:
    """Check that an output belongs to one table.

    Raises:
        InputError: an output is given without a table, or for several configs.
    """
    asked = [config for config in configs if config.output is not None]
    if any(config.dataset.plugin not in OWN for config in asked):
        raise InputError(f"output= applies to the rows of a table; add dataset={TABLE} path=FILE, or omit it")
    if asked and len(configs) > 1:
        raise InputError(f"output={asked[0].output}: one file for {len(configs)} clusterings; omit output")


def check_files(config: TableConfig, file: "RowFile", added: Sequence[str]) -> None:
    """Check that the rows can be written with the added columns.

    Raises:
        InputError: the output cannot be written, or the table already has such a column.
    """
    if config.output is not None:
        page = _page_beside(file.check_output(config.output, added))
        if os.path.lexists(page) and PAGE_MARK not in head_of(page):
            raise InputError(
                f"output={config.output}: its page would overwrite {page}, which is another file; give another name, "
                "or move that file"
            )
    file.check_added(added)


def check_clusters(contents: "Contents", clusters: int | None) -> None:
    """Check the number of clusters.

    Raises:
        InputError: it is missing, or exceeds the number of distinct rows.
    """
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


def places(config: TableConfig, clusters: int, identity: str, contents: "Contents", store: "Store") -> Written:
    """Return the paths of the rows and the page, from the config or in the results folder."""
    columns = TableColumns.of(contents)
    if config.output is not None:
        rows = Path(config.output)
        return Written(rows, _page_beside(rows), columns)
    own, ending = stem_and_ending(contents.file.path)
    stem = f"{own}-{short(config.method)}-{clusters}-{identity[:6]}"
    folder = store.root / "clusters"
    return Written(folder / f"{stem}{ending}", folder / f"{stem}.html", columns)


def method_name(config: TableConfig) -> str:
    """Return the displayed name of the method, with its description."""
    said = comment(config.method.group, config.method.name).rstrip(".")
    return f"{short(config.method)}, {said}" if said else short(config.method)


def typed(config: TableConfig, configs: Sequence[TableConfig], settings: Sequence[str]) -> list[str]:
    """Return the settings of the command line if they produce one result, otherwise those of this config alone."""
    return list(settings) if len(configs) == 1 else config.arguments()


def command(verb: str, words: Sequence[str], changed: Mapping[str, str]) -> str:
    """Return the command line with some keys changed; a changed command does not keep the output file."""
    dropped = tuple(f"{name}=" for name in (*changed, *(["output"] if changed else [])))
    kept = [word for word in words if not word.startswith(dropped)]
    return shlex.join(["transduce", verb, *kept, *(f"{name}={value}" for name, value in changed.items())])


def _page_beside(rows: Path) -> Path:
    return rows.with_name(f"{stem_and_ending(rows)[0]}.html")


def stem_and_ending(path: Path) -> tuple[str, str]:
    """Split a file name into stem and ending, where .csv.gz is one ending."""
    stem = Path(path.name.removesuffix(".gz")).stem
    return stem, path.name.removeprefix(stem)
