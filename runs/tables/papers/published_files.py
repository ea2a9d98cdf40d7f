"""Read the files of `runs/published/`. Every error names the file and the row."""

import dataclasses
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, get_args

from clustering.foundation.errors import InputError, unknown
from clustering.foundation.parameters import validate
from runs.tables.papers.printed import (
    Cause,
    Erratum,
    Kind,
    Place,
    PublishedColumn,
    PublishedRow,
    PublishedTable,
    Value,
)

NO_NUMBER = ("-", "N/A", "")  # printed in place of a number; null in a file means a dash
NUMBER, BESIDE = r"(?P<about>~?)(?P<value>-?\d+(?:\.\d+)?(?:e-?\d+)?)", r"(?P<beside>\d+(?:\.\d+)?)"
FORMS = {  # by the interval of the table: the form of a number, and an example
    "none": (re.compile(f"{NUMBER}(?P<beside>)"), "49.61"),
    "ci95": (re.compile(f"{NUMBER}(?: ± {BESIDE})?"), "49.61 ± 0.92"),
    "std": (re.compile(rf"{NUMBER}(?: \({BESIDE}\))?"), "62 (3.5)"),
}
T = TypeVar("T")


@dataclass(frozen=True)
class Correction:
    """Numbers that replace the printed ones of a row as targets (None keeps a printed one), the table that prints them,
    and the erratum that says why."""

    row: str
    values: tuple[str | None, ...]
    source: str
    erratum: str
    group: str = ""

    def __post_init__(self) -> None:
        validate(self)


def erratum_from(key: str, content: Any, tables: Sequence[str]) -> Erratum:
    """An erratum from the content of the file under its id.

    Raises:
        InputError: says what is wrong, such as an unknown table.
    """
    where = f"runs/published/errata.yaml, {key}"
    _check_keys(content, [field.name for field in dataclasses.fields(Erratum) if field.name != "id"], where)
    places = tuple(build(Place, place, where) for place in content.get("where", ()))
    for place in places:
        if place.table and place.table not in tables:
            raise InputError(f"{where}: {unknown('published table', place.table, tables)}")
    return build(Erratum, {**content, "id": key, "where": places}, where)


def cause_from(key: str, content: Any, tables: Mapping[str, PublishedTable]) -> Cause:
    """A cause from the content of the file under its id; `tables` are all tables by name.

    Raises:
        InputError: says what is wrong, such as a row that the table does not have.
    """
    where = f"runs/published/causes.yaml, {key}"
    _check_keys(content, [field.name for field in dataclasses.fields(Cause) if field.name != "id"], where)
    places = tuple(build(Place, place, where) for place in content.get("where", ()))
    for place in places:
        if place.table not in tables:
            raise InputError(f"{where}: {unknown('published table', place.table, tables)}")
        _check_place(place, tables[place.table].rows, tables[place.table].columns, where)
    return build(Cause, {**content, "id": key, "where": places}, where)


def table_from(name: str, content: Any, errata: Mapping[str, Erratum], tables: Sequence[str]) -> PublishedTable:
    """A table from the content of its file; `tables` are the names of all tables.

    Raises:
        InputError: says what is wrong, with the file and the row.
    """
    file = f"runs/published/{name}.yaml"
    own = [field.name for field in dataclasses.fields(PublishedTable) if field.name not in GIVEN]
    _check_keys(content, [*own, "corrected"], file)
    columns = _columns(content.get("columns", ()), file)
    rows, written = _rows(content.get("rows", ()), columns, file)
    interval = content.get("interval", "none")
    if interval not in FORMS:
        raise InputError(f"{file}: {unknown('interval', str(interval), FORMS)}")
    places = [(erratum, place) for erratum in errata.values() for place in erratum.where if place.table == name]
    for erratum, place in places:
        _check_place(place, rows, columns, f"runs/published/errata.yaml, {erratum.id}")
    values, missing = {}, {}
    for (r, c), text in written.items():
        row, column = rows[r], columns[c]
        where = f"{file}, row {r + 1} ({row.name})"
        if text is None or text in NO_NUMBER:
            missing[r, c] = "-" if text is None else text
            continue
        number, half_width, about = _number(text, interval, where)
        of_cell = [erratum for erratum, place in places if not place.whole_table and place.holds(row, column)]
        values[r, c] = Value(
            number,
            text,
            half_width,
            _kind(row, column, where),
            "printed as approximate" if about else "",
            tuple(erratum.id for erratum in of_cell),
            target=all(erratum.target for erratum in of_cell),
        )
    for (r, c), changed in _corrected(content.get("corrected", ()), rows, values, errata, tables, interval, file):
        values[r, c] = changed
    facts = {key: content[key] for key in content if key != "corrected"}
    facts |= {"columns": columns, "rows": rows, "values": values, "missing": missing}
    facts |= dict(zip(("work", "number"), name.split("/"), strict=True))
    return build(PublishedTable, {**facts, "errata": tuple(dict.fromkeys(erratum.id for erratum, _ in places))}, file)


GIVEN = ("work", "number", "values", "missing", "errata")  # fields of a table that are not in its file


def _columns(written: Iterable[Any], file: str) -> tuple[PublishedColumn, ...]:
    columns = tuple(build(PublishedColumn, column, f"{file}, column {i}") for i, column in enumerate(written, 1))
    _check_twice([(column.group, column.name, column.metric) for column in columns], f"{file}: column")
    return columns


def _rows(
    written: Iterable[Any], columns: Sequence[PublishedColumn], file: str
) -> tuple[tuple[PublishedRow, ...], dict[tuple[int, int], Any]]:
    """The rows, and the content of the file by (row, column)."""
    rows: list[PublishedRow] = []
    numbers_at: dict[tuple[int, int], Any] = {}
    for r, content in enumerate(written):
        where = f"{file}, row {r + 1}"
        _check_keys(content, [*(field.name for field in dataclasses.fields(PublishedRow)), "values"], where)
        row = build(PublishedRow, {key: content[key] for key in content if key != "values"}, where)
        groups = {column.group for column in columns}
        for group in row.column_groups:
            if group not in groups:
                raise InputError(f"{where} ({row.name}): {unknown('column group', group, groups)}")
        own = [c for c, column in enumerate(columns) if not row.column_groups or column.group in row.column_groups]
        numbers = content.get("values", ())
        if len(numbers) != len(own):
            raise InputError(f"{where} ({row.name}): {len(numbers)} values for {len(own)} columns; null is a dash")
        numbers_at |= {(r, c): number for c, number in zip(own, numbers, strict=True)}
        rows.append(row)
    _check_twice([(row.group, row.name) for row in rows], f"{file}: row")
    return tuple(rows), numbers_at


def _corrected(
    written: Iterable[Any],
    rows: Sequence[PublishedRow],
    values: Mapping[tuple[int, int], Value],
    errata: Mapping[str, Erratum],
    tables: Sequence[str],
    interval: str,
    file: str,
) -> Iterable[tuple[tuple[int, int], Value]]:
    """The values with a corrected target, by (row, column)."""
    for i, content in enumerate(written, 1):
        entry = build(Correction, content, f"{file}, corrected {i}")
        where = f"{file}, corrected {i} ({entry.row})"
        at = [r for r, row in enumerate(rows) if (row.group, row.name) == (entry.group, entry.row)]
        if not at:
            raise InputError(f"{where}: the table has no such row")
        if entry.erratum not in errata:
            raise InputError(f"{where}: {unknown('erratum', entry.erratum, errata)}")
        if entry.source not in tables:
            raise InputError(f"{where}: {unknown('published table', entry.source, tables)}")
        for c, text in enumerate(entry.values):
            if text is None:
                continue
            if (at[0], c) not in values:
                raise InputError(f"{where}: has no number in column {c + 1} to be corrected")
            number, half_width, _ = _number(text, interval, where)
            yield (
                (at[0], c),
                dataclasses.replace(
                    values[at[0], c],
                    corrected=number,
                    corrected_half_width=half_width,
                    corrected_source=entry.source,
                ),
            )


def _number(text: Any, interval: str, where: str) -> tuple[float, float | None, bool]:
    """The number, the number beside it, and whether it is printed as approximate."""
    form, example = FORMS[interval]
    match = form.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        fitting = [name for name, (other, _) in FORMS.items() if isinstance(text, str) and other.fullmatch(text)]
        instead = f", or give the table interval: {fitting[0]}" if fitting else ""
        raise InputError(
            f'{where}: {text!r} is no number of the form of this table; write it like "{example}", in quotes{instead}'
        )
    return float(match["value"]), float(match["beside"]) if match["beside"] else None, bool(match["about"])


def _kind(row: PublishedRow, column: PublishedColumn, where: str) -> Kind:
    if row.kind and not column.kind:
        return row.kind
    if column.kind and not row.kind:
        return column.kind
    kinds = ", ".join(get_args(Kind))
    raise InputError(f"{where}, column {column.name}: give either the row or the column a kind ({kinds})")


def _check_place(place: Place, rows: Sequence[PublishedRow], columns: Sequence[PublishedColumn], where: str) -> None:
    for kind, named, known in (
        ("row group", place.row_groups, [row.group for row in rows]),
        ("row", place.rows, [row.name for row in rows]),
        ("column group", place.column_groups, [column.group for column in columns]),
        ("column", place.columns, [column.name for column in columns]),
        ("metric", place.metrics, [column.metric for column in columns]),
    ):
        for name in named:
            if name not in known:
                raise InputError(f"{where}: {place.table}: {unknown(kind, name, known)}")
    if not any(place.holds(row, column) for row in rows for column in columns):
        raise InputError(f"{where}: {place.table}: no cell has that row and that column")


def _check_twice(keys: Sequence[tuple[str, ...]], where: str) -> None:
    for key in keys:
        if keys.count(key) > 1:
            raise InputError(f"{where} {' '.join(filter(None, key))} is there twice")


def _check_keys(content: Any, known: Sequence[str], where: str) -> None:
    if not isinstance(content, dict):
        raise InputError(f"{where}: must hold keys and values, not {content!r}")
    for key in content:
        if key not in known:
            raise InputError(f"{where}: {unknown('key', str(key), known)}")


def build(kind: type[T], content: Any, where: str) -> T:
    """A dataclass from its fields in a file; lists become tuples.

    Raises:
        InputError: an unknown or missing key, or an invalid value.
    """
    fields = dataclasses.fields(kind)  # type: ignore[arg-type]
    _check_keys(content, [field.name for field in fields], where)
    for field in fields:
        if field.name not in content and field.default is field.default_factory is dataclasses.MISSING:
            raise InputError(f"{where}: has no {field.name}")
    try:
        return kind(**{key: tuple(value) if isinstance(value, list) else value for key, value in content.items()})
    except InputError as error:
        raise InputError(f"{where}: {error}") from error
