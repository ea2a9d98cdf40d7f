"""What verbs share that cluster a person's own table: where its rows and the page go, and what is checked before."""

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
"""In every page that is written beside rows: what lacks it was written by somebody else."""


class TableConfig(Protocol):
    """A config that may be about a table."""

    @property
    def dataset(self) -> Choice:
        """The points."""

    @property
    def method(self) -> Choice:
        """How they are clustered."""

    @property
    def output(self) -> str | None:
        """Where the rows go."""

    def arguments(self) -> list[str]:
        """What to type for it."""


@dataclass(frozen=True)
class Written:
    """The two files of a clustered table, and what was done with its columns."""

    rows: Path
    page: Path
    columns: TableColumns

    def record(self) -> dict[str, Any]:
        """It, for JSON."""
        return {"rows": str(self.rows), "page": str(self.page), "columns": self.columns.record()}


def is_table(config: TableConfig) -> bool:
    """Whether it clusters a table of one's own."""
    return config.dataset.plugin == TABLE


def check_outputs(configs: Sequence[TableConfig]) -> None:
    """That an output is of one table.

    Raises:
        InputError: an output without a table, or for several configs.
    """
    asked = [config for config in configs if config.output is not None]
    if any(config.dataset.plugin not in OWN for config in asked):
        raise InputError(f"output= is for the rows of a table; add dataset={TABLE} path=FILE, or leave it out")
    if asked and len(configs) > 1:
        raise InputError(f"output={asked[0].output}: one file, but {len(configs)} clusterings; leave output out")


def check_files(config: TableConfig, file: "RowFile", added: Sequence[str]) -> None:
    """That the rows can be written with columns added.

    Raises:
        InputError: an output that cannot be written, or a table that has such a column.
    """
    if config.output is not None:
        page = _page_beside(file.check_output(config.output, added))
        if os.path.lexists(page) and PAGE_MARK not in head_of(page):
            raise InputError(
                f"output={config.output}: the page about it would take the place of {page}, which is another; give "
                "another name, or move that file"
            )
    file.check_added(added)


def check_clusters(contents: "Contents", clusters: int | None) -> None:
    """That so many clusters can be found.

    Raises:
        InputError: it was not said how many, or there are fewer different rows.
    """
    if clusters is None:
        raise InputError(
            f"{contents.file.path}: say how many clusters to find; add n_clusters=3, say, and try others when you "
            "have seen the page about these"
        )
    for values in (contents.values[:1000], contents.values):  # of which the first thousand may do
        distinct = len({row.tobytes() for row in values + 0.0})  # -0.0 is 0.0
        if distinct >= clusters:
            return
    raise InputError(
        f"{contents.file.path}: {distinct} different rows for {clusters} clusters; set n_clusters to at most {distinct}"
    )


def places(config: TableConfig, clusters: int, identity: str, contents: "Contents", store: "Store") -> Written:
    """Where the rows and the page are written: where the config says, or in the results."""
    columns = TableColumns.of(contents)
    if config.output is not None:
        rows = Path(config.output)
        return Written(rows, _page_beside(rows), columns)
    own, ending = stem_and_ending(contents.file.path)
    stem = f"{own}-{short(config.method)}-{clusters}-{identity[:6]}"
    folder = store.root / "clusters"
    return Written(folder / f"{stem}{ending}", folder / f"{stem}.html", columns)


def method_name(config: TableConfig) -> str:
    """What a person calls the method."""
    said = comment(config.method.group, config.method.name).rstrip(".")
    return f"{short(config.method)}, {said}" if said else short(config.method)


def typed(config: TableConfig, configs: Sequence[TableConfig], settings: Sequence[str]) -> list[str]:
    """What was typed, where it makes one result; else what makes this one of them alone."""
    return list(settings) if len(configs) == 1 else config.arguments()


def command(verb: str, words: Sequence[str], changed: Mapping[str, str]) -> str:
    """What to type for the same with some keys changed, and then with files of its own."""
    dropped = tuple(f"{name}=" for name in (*changed, *(["output"] if changed else [])))
    kept = [word for word in words if not word.startswith(dropped)]
    return shlex.join(["transduce", verb, *kept, *(f"{name}={value}" for name, value in changed.items())])


def _page_beside(rows: Path) -> Path:
    return rows.with_name(f"{stem_and_ending(rows)[0]}.html")


def stem_and_ending(path: Path) -> tuple[str, str]:
    """Its name in two, of which .csv.gz is one ending."""
    stem = Path(path.name.removesuffix(".gz")).stem
    return stem, path.name.removeprefix(stem)
