"""The page about a result on a user's own data: one HTML file that needs no other file and no network."""

import base64
import io
import os
import shlex
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
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
from runs.report.sections import Column, Table
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
class Written:
    """The output files of a result, and the use of the columns of a table in words."""

    rows: Path
    page: Path
    columns: Sequence[str] = ()

    def record(self) -> dict[str, Any]:
        """The record as a dictionary for JSON."""
        columns = {"columns": list(self.columns)} if self.columns else {}
        return {"rows": str(self.rows), "page": str(self.page), **columns}


def command_line(verb: str, settings: Sequence[str]) -> str:
    """The command line of a verb, for the shell."""
    return shlex.join(["transduce", verb, *settings])


def html_of(page: Mapping[str, Any]) -> str:
    """The page as HTML; all text is escaped.

    Args:
        page: `title`; paragraphs of the `introduction`; `warnings` about what may be wrong; `sections`, of
            `runs.report.sections`; displayed name of the `method`; `command`, the command line of this result; and
            technical `facts` by name.
    """
    return environment().get_template("own_data.html").render(page=page)


def write_page(rows: Path, write_rows: Callable[[Path], object], page: Mapping[str, Any], *others: Output) -> Written:
    """Write a file of rows and others, and the page beside the rows: all of them, or none.

    Args:
        rows: path of the rows.
        write_rows: function that writes the rows to a path.
        page: as in `html_of`.
        others: other files.

    Raises:
        InputError: the disk is full or not writable.
    """
    place, html = page_beside(rows), as_utf8(html_of(page))
    rows.parent.mkdir(parents=True, exist_ok=True)
    shown = Output(place, "output=FILE", lambda path: write_text(path, html))
    write_together([Output(rows, "output=FILE", write_rows), shown, *others])
    return Written(rows, place)


def write_table(
    result: "Clustered | FairResult",
    contents: "Contents",
    store: "Store",
    added: Mapping[str, Any],
    command: str,
    facts: Mapping[str, str],
    parts: dict[str, Any],
) -> Written:
    """Write the rows of a clustered table with the added columns, and its page: both of them, or none.

    Args:
        result: the clustering.
        contents: the table.
        store: the store, for the default folder.
        added: the added columns.
        command: the command line that produces this result.
        facts: technical facts besides those of every clustering.
        parts: title, introduction, warnings and sections of the page.
    """
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


def output_path(output: str | None, store: Store, folder: str, name: str) -> Path:
    """The path of the rows: the given one, or a name in a folder of the results."""
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


def method_name(choice: Choice) -> str:
    """The displayed name of a method, with its description."""
    about = comment(choice.group, choice.name).rstrip(".")
    return f"{short(choice)}, {about}" if about else short(choice)


def as_utf8(text: str) -> str:
    """Escape bytes of file names that are not UTF-8: caf\\udce9.png."""
    return text.encode("utf-8", "backslashreplace").decode()


def data_url(content: bytes, kind: str) -> str:
    """A picture as a URL that contains it. `kind`: png or jpeg."""
    return f"data:image/{kind};base64,{base64.b64encode(content).decode()}"


def picture(figure: "Figure") -> str:
    """A figure of matplotlib as a data URL; equal figures give equal text."""
    stream = io.BytesIO()
    figure.savefig(stream, format="png", dpi=PIXELS, metadata={"Software": "transduce"})
    return data_url(stream.getvalue(), "png")


def of_frame(frame: pd.DataFrame, caption: str = "", *, text: Collection[str] = ()) -> Table:
    """A table of a page; columns but the first are numbers, aligned to the right, if not named in `text`."""
    columns = [Column(str(name), place > 0 and name not in text) for place, name in enumerate(frame.columns)]
    return Table(columns, [list(map(str, row)) for row in frame.itertuples(index=False)], caption)


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
                as_text(cell, "./" if not place else "'") if isinstance(cell, str) else "" for cell in frame[name]
            ]
    shown.columns = pd.Index([as_text(str(name)) for name in frame.columns])
    return as_utf8(shown.to_csv(index=False, float_format=f"%.{digits}f", lineterminator="\n"))


def number(value: float) -> str:
    """A number with three digits, or all digits before the decimal point."""
    return f"{value:,.0f}" if abs(value) >= 9_999.5 else f"{value:.0f}" if abs(value) >= 99.5 else f"{value:.3g}"


def percent(share: float) -> str:
    """A share in percent; 0 % and 100 % only if exact, - for NaN."""
    if share != share:
        return "-"
    if 0 < share <= 0.005 or 0.995 <= share < 1:
        return "under 1 %" if share < 0.5 else "over 99 %"
    return f"{100 * share:.0f} %"
