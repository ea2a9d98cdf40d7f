"""Read the files of `runs/published/`. Every error names the file and the row."""

import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import Annotated, Any, Literal, TypeVar, get_args

from pydantic import Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from clustering.foundation.errors import InputError, unknown
from runs.tables.papers.printed import (
    STRICT,
    Cause,
    Erratum,
    Kind,
    Place,
    PublishedColumn,
    PublishedRow,
    PublishedTable,
    Text,
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


@dataclass(frozen=True, config=STRICT)
class RowFile(PublishedRow):
    """A row with its numbers, one for each column that it has, digits as printed; None for a dash."""

    values: tuple[str | None, ...] = ()


@dataclass(frozen=True, config=STRICT)
class Correction:
    """Numbers that replace the printed ones of a row as targets (None keeps a printed one), the table that prints them,
    and the erratum that says why."""

    row: str
    values: tuple[str | None, ...]
    source: str
    erratum: str
    group: str = ""


@dataclass(frozen=True, config=STRICT)
class TableFile:
    """The content of the file of a table; `PublishedTable` says what the fields mean."""

    caption: Text
    columns: tuple[PublishedColumn, ...]
    rows: tuple[RowFile, ...]
    protocol: Mapping[str, str] = field(default_factory=dict)
    interval: Literal["ci95", "std", "none"] = "none"
    over: Literal["tasks", "runs"] | None = None
    tasks: Annotated[int, Field(ge=1)] | None = None
    runs: Annotated[int, Field(ge=1)] | None = None
    remark: str = ""
    corrected: tuple[Correction, ...] = ()


def table_schema() -> dict[str, Any]:
    """The JSON schema of the file of a table, which `runs/published/table.schema.json` has for editors."""
    return {"title": "A table as a paper prints it", **TypeAdapter(TableFile).json_schema()}


def build(kind: type[T], content: Any, where: str) -> T:
    """An object from its fields in a file; lists become tuples.

    Raises:
        InputError: an unknown or missing key, or an invalid value; says where.
    """
    try:
        return TypeAdapter(kind).validate_python(content)
    except ValidationError as error:
        raise InputError(_in_words(kind, content, error.errors()[0], where)) from None


def _in_words(kind: type, content: Any, error: Mapping[str, Any], where: str) -> str:
    """An error of pydantic in words. Items of a list have their number and name, as in "row 3 (MAML)"."""
    keys = [key for key in error["loc"] if isinstance(key, int) or not key.startswith("function-")]
    missing = error["type"] in ("missing", "missing_argument", "unexpected_keyword_argument")
    last = keys.pop() if missing else None
    for i, key in enumerate(keys):
        content = content[key] if isinstance(content, Mapping | list | tuple) else content
        of_list = {"rows": "row", "columns": "column", "corrected": "corrected"}.get(str(keys[i - 1]) if i else "")
        if isinstance(key, int) and of_list:
            name = content.get("name", content.get("row", "")) if isinstance(content, Mapping) else ""
            where += f", {of_list} {key + 1}" + (f" ({name})" if name else "")
            kind = {"row": RowFile, "column": PublishedColumn, "corrected": Correction}[of_list]
        elif key == "where":
            kind = Place
    if missing and error["type"] != "unexpected_keyword_argument":
        return f"{where}: has no {last}"
    if missing:
        return f"{where}: {unknown('key', str(last), [item.name for item in dataclasses.fields(kind)])}"
    if error["type"] == "dataclass_type":
        return f"{where}: must hold keys and values, not {content!r}"
    words = [str(key) for i, key in enumerate(keys) if not any(isinstance(one, int) for one in keys[i:])]
    if "values" in keys:
        return f"{where}: {content!r} is no number of the form of this table; write it in quotes"
    context = error.get("ctx", {})
    expected = {
        "literal_error": f"one of {context.get('expected', '')}".replace(" or ", ", ").replace("'", ""),
        "string_type": "text",
        "dict_type": "keys and values",
        "mapping_type": "keys and values",
        "bool_type": "true or false",
        "greater_than_equal": f"an integer at least {context.get('ge')}",
    }
    if error["type"] in ("string_too_short", "too_short"):
        return f"{where}: {words[-1]} is empty"
    field_name = ": ".join(words) or "the content"
    return f"{where}: {field_name} must be {expected.get(error['type'], error['msg'].lower())}, not {content!r}"


def erratum_from(key: str, content: Any, tables: Sequence[str]) -> Erratum:
    """An erratum from the content of the file under its id.

    Raises:
        InputError: says what is wrong, such as an unknown table.
    """
    where = f"runs/published/errata.yaml, {key}"
    erratum = build(Erratum, {**content, "id": key}, where)
    for place in erratum.where:
        if place.table and place.table not in tables:
            raise InputError(f"{where}: {unknown('published table', place.table, tables)}")
    return erratum


def cause_from(key: str, content: Any, tables: Mapping[str, PublishedTable]) -> Cause:
    """A cause from the content of the file under its id; `tables` are all tables by name.

    Raises:
        InputError: says what is wrong, such as a row that the table does not have.
    """
    where = f"runs/published/causes.yaml, {key}"
    cause = build(Cause, {**content, "id": key}, where)
    for place in cause.where:
        if place.table not in tables:
            raise InputError(f"{where}: {unknown('published table', place.table, tables)}")
        _check_place(place, tables[place.table].rows, tables[place.table].columns, where)
    return cause


def table_from(name: str, content: Any, errata: Mapping[str, Erratum], tables: Sequence[str]) -> PublishedTable:
    """A table from the content of its file; `tables` are the names of all tables.

    Raises:
        InputError: says what is wrong, with the file and the row.
    """
    file = f"runs/published/{name}.yaml"
    read = build(TableFile, content, file)
    columns = read.columns
    _check_twice([(column.group, column.name, column.metric) for column in columns], f"{file}: column")
    _check_twice([(row.group, row.name) for row in read.rows], f"{file}: row")
    places = [(erratum, place) for erratum in errata.values() for place in erratum.where if place.table == name]
    for erratum, place in places:
        _check_place(place, read.rows, columns, f"runs/published/errata.yaml, {erratum.id}")
    values, missing = {}, {}
    for r, row in enumerate(read.rows):
        where = f"{file}, row {r + 1} ({row.name})"
        for c, text in _by_column(row, columns, where):
            if text is None or text in NO_NUMBER:
                missing[r, c] = "-" if text is None else text
                continue
            number, half_width, about = _number(text, read.interval, where)
            of_cell = [e for e, place in places if not place.whole_table and place.holds(row, columns[c])]
            values[r, c] = Value(
                number,
                text,
                half_width,
                _kind(row, columns[c], where),
                "printed as approximate" if about else "",
                tuple(erratum.id for erratum in of_cell),
                target=all(erratum.target for erratum in of_cell),
            )
    values |= dict(_corrected(read, values, errata, tables, file))
    kept = {item.name for item in dataclasses.fields(PublishedRow)}
    rows = tuple(PublishedRow(**{key: getattr(row, key) for key in kept}) for row in read.rows)
    same = {key: getattr(read, key) for key in ("caption", "protocol", "interval", "over", "tasks", "runs", "remark")}
    cited = tuple(dict.fromkeys(erratum.id for erratum, _ in places))
    work, number_of_table = name.split("/")
    return PublishedTable(
        work, number_of_table, columns=columns, rows=rows, values=values, missing=missing, errata=cited, **same
    )


def _by_column(row: RowFile, columns: Sequence[PublishedColumn], where: str) -> Iterator[tuple[int, str | None]]:
    """The numbers of a row, each with the index of its column."""
    groups = {column.group for column in columns}
    for group in row.column_groups:
        if group not in groups:
            raise InputError(f"{where}: {unknown('column group', group, groups)}")
    own = [c for c, column in enumerate(columns) if not row.column_groups or column.group in row.column_groups]
    if len(row.values) != len(own):
        raise InputError(f"{where}: {len(row.values)} values for {len(own)} columns; null is a dash")
    return zip(own, row.values, strict=True)


def _corrected(
    read: TableFile,
    values: Mapping[tuple[int, int], Value],
    errata: Mapping[str, Erratum],
    tables: Sequence[str],
    file: str,
) -> Iterator[tuple[tuple[int, int], Value]]:
    """The values with a corrected target, by (row, column)."""
    for i, entry in enumerate(read.corrected, 1):
        where = f"{file}, corrected {i} ({entry.row})"
        at = [r for r, row in enumerate(read.rows) if (row.group, row.name) == (entry.group, entry.row)]
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
            number, half_width, _ = _number(text, read.interval, where)
            known = values[at[0], c]
            yield (
                (at[0], c),
                dataclasses.replace(
                    known, corrected=number, corrected_half_width=half_width, corrected_source=entry.source
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
