"""The page about a result on a user's own data: one HTML file that needs no other file and no network."""

import base64
import io
import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from clustering.files.regular import head_of
from clustering.files.tables import as_text
from clustering.foundation.errors import InputError
from runs.cache import Store
from runs.config.groups import Choice, comment
from runs.config.overrides import spell
from runs.report.rendering import environment
from runs.report.sections import Section
from runs.stages.lineage import short
from runs.storage.disk import write_text
from runs.storage.together import Output, check_place, write_together

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from clustering.datasets.table import Contents
    from runs.stages.clustering.results import Clustered
    from runs.stages.fair.results import FairResult

PAGE_MARK = b'<meta name="generator" content="transduce">'  # contained in every page
PIXELS = 150  # per inch of a picture
NAMED = 12  # maximum number of columns listed per kind or reason
KINDS = {"numbers": "numbers", "dates": "dates, in days since 1970-01-01", "categories": "categories"}


@dataclass(frozen=True)
class Page:
    """A page about a result.

    Attributes:
        title, introduction: its title, and paragraphs below.
        sections: what it shows.
        warnings: what may be wrong.
        facts: technical facts by name.
        method: displayed name of the method.
        command: the command line of this result.
    """

    title: str
    introduction: Sequence[str]
    sections: Sequence[Section]
    warnings: Sequence[str] = ()
    facts: Mapping[str, str] = field(default_factory=dict)
    method: str = ""
    command: str = ""

    def html(self) -> str:
        """The page as HTML; all text is escaped."""
        return as_utf8(environment().get_template("own_data.html").render(page=self))


@dataclass(frozen=True)
class Written:
    """The output files of a result, and the use of the columns of a table in words."""

    rows: Path
    page: Path
    columns: Sequence[str] = ()

    def record(self) -> dict[str, Any]:
        """The record as a dictionary for JSON."""
        columns = {"columns": list(self.columns)} if self.columns else {}
        return {"rows": str(self.rows), "page": str(self.page), **columns}


def write_page(
    page: Page, choice: Choice, command: str, rows: Path, write_rows: Callable[[Path], object], *others: Output
) -> Written:
    """Write a file of rows and others, and the page beside the rows: all of them, or none.

    Args:
        page: the page, to which method and settings are added.
        choice: the method or strategy.
        command: the command line of this result.
        rows: path of the rows.
        write_rows: function that writes the rows to a path.
        others: other files.

    Raises:
        InputError: the disk is full or not writable.
    """
    about = comment(choice.group, choice.name).rstrip(".")
    method = f"{short(choice)}, {about}" if about else short(choice)
    facts = {"file": rows.name, **page.facts, "settings": spell(choice.options)}
    place, html = page_beside(rows), replace(page, method=method, command=command, facts=facts).html()
    rows.parent.mkdir(parents=True, exist_ok=True)
    shown = Output(place, "output=FILE", lambda path: write_text(path, html))
    write_together([Output(rows, "output=FILE", write_rows), shown, *others])
    return Written(rows, place)


def write_table(
    page: Page,
    result: "Clustered | FairResult",
    contents: "Contents",
    added: Mapping[str, Any],
    facts: Mapping[str, str],
    store: Store,
    command: str,
) -> Written:
    """Write the rows of a clustered table with the added columns, and its page, to which the facts are added."""
    config, (stem, ending) = result.config, stem_and_ending(contents.file.path)
    scale = "not scaled" if config.dataset.options["scale"] is None else "in their standard deviations"
    page = replace(
        page, title=page.title + contents.file.path.name, facts={**run_facts(result), "columns": scale, **facts}
    )
    rows, file = output_of(result, stem, store, ending), contents.file
    written = write_page(page, config.method, command, rows, lambda path: file.save(path, added, contents.rows))
    return replace(written, columns=columns_used(contents))


def output_of(result: "Clustered | FairResult", stem: str, store: Store, ending: str = ".csv") -> Path:
    """The path of the rows of a clustering of `stem`."""
    config = result.config
    parts = stem, short(config.method), result.n_clusters, result.key[:6]
    return output_path(config.output, store, "clusters", *parts, ending=ending)


def run_facts(result: "Clustered | FairResult") -> dict[str, str]:
    """What identifies a run."""
    return {"run in MLflow": result.run_id, "identity": result.key, "seed": str(result.config.seed)}


def command_line(verb: str, settings: Sequence[str]) -> str:
    """The command line of a verb, for the shell."""
    return shlex.join(["transduce", verb, *settings])


def output_path(output: str | None, store: Store, folder: str, *parts: object, ending: str = ".csv") -> Path:
    """The path of the rows: the given one, or a name of these parts in a folder of the results."""
    name = "-".join(map(str, parts)) + ending
    return store.root / folder / name if output is None else Path(output).expanduser()


def check_rows(rows: Path, columns: Sequence[str], what: str) -> None:
    """Check that a CSV file and its page can be written, and that they replace only files of their kind.

    Raises:
        InputError: they cannot.
    """
    check_place("output", rows, ".csv")
    if rows.exists() and not head_of(rows).startswith(",".join(columns).encode()):
        raise InputError(f"output={rows}: exists, and does not contain {what}; give another name, or move it")
    check_place("output", page_beside(rows), ".html")
    check_page(rows)


def check_page(rows: Path) -> None:
    """Check that the page beside the rows overwrites only such a page.

    Raises:
        InputError: there is another file.
    """
    page = page_beside(rows)
    if os.path.lexists(page) and PAGE_MARK not in head_of(page):
        raise InputError(f"output={rows}: its page would overwrite {page}, which is another file; give another name")


def page_beside(rows: Path) -> Path:
    """The path of the page beside the rows."""
    return rows.with_name(f"{stem_and_ending(rows)[0]}.html")


def stem_and_ending(path: Path) -> tuple[str, str]:
    """Split a file name into stem and ending, where .csv.gz is one ending."""
    stem = Path(path.name.removesuffix(".gz")).stem
    return stem, path.name.removeprefix(stem)


def as_utf8(text: str) -> str:
    """Escape bytes of file names that are not UTF-8: caf\\udce9.png."""
    return text.encode("utf-8", "backslashreplace").decode()


def data_url(content: "bytes | Figure") -> str:
    """A JPEG picture, or a figure of matplotlib as PNG, as a URL that contains it; equal figures give equal text."""
    if isinstance(content, bytes):
        return f"data:image/jpeg;base64,{base64.b64encode(content).decode()}"
    stream = io.BytesIO()
    content.savefig(stream, format="png", dpi=PIXELS, metadata={"Software": "transduce"})
    return f"data:image/png;base64,{base64.b64encode(stream.getvalue()).decode()}"


def columns_used(contents: "Contents") -> list[str]:
    """Lines about the columns of a table: which are used, as what, and why others are not."""
    used, unused = dict[str, list[str]](), dict[str, list[str]]()
    for name, kind in {feature.column: KINDS[feature.kind] for feature in contents.features}.items():
        used.setdefault(kind, []).append(name)
    mistakes = [name for name, reason in contents.left_out.items() if reason.mistakes]
    for name, reason in contents.left_out.items():
        if not reason.mistakes:
            unused.setdefault(reason.why, []).append(name)
    lines = [
        f"columns {what}: " + "; ".join(f"{named(names)} ({why})" for why, names in list(by.items())[:NAMED])
        for what, by in (("used", used), ("not used", unused))
        if by
    ]
    for name in mistakes[:NAMED]:
        lines.append(f"warning: column {name!r} is not used: {contents.left_out[name].why}")
    lines += [f"warning: {remark}" for remark in contents.remarks[:NAMED]]
    if contents.filled:
        rows = len(contents.rows)
        filled = named([f"{count:,} of {name} ({count / rows:.0%})" for name, count in contents.filled.items()])
        by = "the most frequent value" if contents.filled_by == "most_frequent" else f"the {contents.filled_by}"
        without = f"; columns without missing values: columns={contents.complete}" * bool(contents.complete)
        lines.append(
            f"warning: missing values filled by {by} (of categories, the most frequent): {filled}. To leave such rows "
            f"out, set missing=drop{without}"
        )
    if contents.dropped:
        lines.append(f"rows without a cluster because of missing values: {contents.dropped:,}")
    return lines


def named(names: Sequence[str]) -> str:
    """The first names in a line, and the number of the others."""
    more = f" and {len(names) - NAMED:,} more" if len(names) > NAMED else ""
    return ", ".join(name or "(no name)" for name in names[:NAMED]) + more


def csv_of(frame: pd.DataFrame, digits: int = 6) -> str:
    """A frame as CSV. The first column has names of files; texts that a spreadsheet would read as formulas are escaped:
    the file `=1.png` becomes `./=1.png`, and the class `=1` becomes `'=1`."""
    shown = frame.copy()
    for place, name in enumerate(frame.columns):
        if not pd.api.types.is_numeric_dtype(frame[name]):
            shown[name] = [
                as_utf8(as_text(cell, "'" if place else "./")) if isinstance(cell, str) else "" for cell in frame[name]
            ]
    shown.columns = pd.Index([as_text(str(name)) for name in frame.columns])
    return str(shown.to_csv(index=False, float_format=f"%.{digits}f", lineterminator="\n"))


def number(value: float) -> str:
    """A number with three digits, or all digits before the decimal point."""
    return f"{value:,.0f}" if abs(value) >= 9_999.5 else f"{value:.0f}" if abs(value) >= 99.5 else f"{value:.3g}"


def percent(share: float, unknown: str = "-") -> str:
    """A share in percent; 0 % and 100 % only if exact."""
    if share != share:
        return unknown
    if 0 < share <= 0.005 or 0.995 <= share < 1:
        return "under 1 %" if share < 0.5 else "over 99 %"
    return f"{100 * share:.0f} %"
