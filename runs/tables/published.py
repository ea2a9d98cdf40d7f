"""The papers' tables, figures and errata, read from `runs/published/` and checked.

    table = published_table("thesis/4.1")
    table.values[18, 0].value, table.values[18, 0].corrected  # LaplacianShot on ResNet-18, 1-shot: 72.11, 70.74

Facts alone: how a cell is run here stands in `configs/table/`. `runs/published/table.schema.json` describes the files.
"""

import dataclasses
import importlib.resources
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any, TypeVar

import yaml

from clustering.errors import InputError, unknown
from runs.tables.printed import (
    Erratum,
    Kind,
    Place,
    PublishedColumn,
    PublishedFigure,
    PublishedRow,
    PublishedTable,
    Statement,
    Value,
)

__all__ = [
    "Erratum",
    "Place",
    "PublishedColumn",
    "PublishedFigure",
    "PublishedRow",
    "PublishedTable",
    "Statement",
    "Value",
    "errata",
    "figures",
    "published_names",
    "published_table",
    "stated",
    "works",
]

FOLDER = importlib.resources.files("runs") / "published"
NO_NUMBER = ("-", "N/A", "")  # printed instead of a number; null in the file is a dash
PRINTED = {  # by the table's interval: what a number looks like
    "none": re.compile(r"(~?)(-?\d+(?:\.\d+)?(?:e-?\d+)?)"),
    "ci95": re.compile(r"(~?)(-?\d+(?:\.\d+)?(?:e-?\d+)?)(?: ± (\d+(?:\.\d+)?))?"),
    "std": re.compile(r"(~?)(-?\d+(?:\.\d+)?(?:e-?\d+)?)(?: \((\d+(?:\.\d+)?)\))?"),
}
T = TypeVar("T")


def works() -> dict[str, str]:
    """The works by their short names, with their titles."""
    return {work: content["title"] for work, content in _works().items()}


def published_names() -> list[str]:
    """Names of all tables, "thesis/1.1" and so on, in the order of print."""
    return [f"{work}/{number}" for work, content in _works().items() for number in content["tables"]]


def published_table(name: str) -> PublishedTable:
    """The table of that name.

    Raises:
        InputError: for an unknown name, with the nearest right one.
    """
    if name not in published_names():
        raise unknown("published table", name, published_names())
    return _table(name)


def errata() -> dict[str, Erratum]:
    """All errata by id."""
    return dict(_errata())


def figures() -> tuple[PublishedFigure, ...]:
    """All figures, in the order of print."""
    content = _read("figures.yaml")
    return tuple(
        _build(PublishedFigure, {"work": w, **f}, f"runs/published/figures.yaml, {w}")
        for w in content
        for f in content[w]
    )


def stated() -> tuple[Statement, ...]:
    """The numbers that stand in the text alone."""
    content = _read("stated.yaml")
    return tuple(
        _build(Statement, {"work": w, **s}, f"runs/published/stated.yaml, {w}") for w in content for s in content[w]
    )


@cache
def _works() -> dict[str, Any]:
    return _read("works.yaml")


@cache
def _errata() -> Mapping[str, Erratum]:
    found = {}
    for key, content in _read("errata.yaml").items():
        where = f"runs/published/errata.yaml, {key}"
        places = tuple(_build(Place, place, where) for place in content.get("where", ()))
        found[key] = _build(Erratum, {**content, "id": key, "where": places}, where)
        for place in places:
            if place.table and place.table not in published_names():
                raise InputError(f"{where}: {unknown('published table', place.table, published_names())}")
    return found


@cache
def _table(name: str) -> PublishedTable:
    return table_from(name, _read(f"{name}.yaml"), _errata())


def _read(path: str) -> dict[str, Any]:
    # The parser in C takes a tenth of the time, where it was built.
    content = yaml.load(
        FOLDER.joinpath(path).read_text(encoding="utf-8"), getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    )
    if not isinstance(content, dict):
        raise InputError(f"runs/published/{path}: must hold lines of the form `key: value`")
    return content


def table_from(name: str, content: Mapping[str, Any], errata: Mapping[str, Erratum]) -> PublishedTable:
    """A table from what its file holds.

    Raises:
        InputError: what is wrong, with the file and the row.
    """
    file = f"runs/published/{name}.yaml"
    work, _, number = name.partition("/")
    columns = tuple(
        _build(PublishedColumn, column, f"{file}, column {i}") for i, column in enumerate(content.get("columns", ()), 1)
    )
    rows, written = [], []
    for i, row in enumerate(content.get("rows", ()), 1):
        where = f"{file}, row {i}"
        _keys(row, [*(field.name for field in dataclasses.fields(PublishedRow)), "values"], where)
        rows.append(_build(PublishedRow, {key: row[key] for key in row if key != "values"}, where))
        written.append(row.get("values", ()))
    _no_twice([(c.group, c.name, c.metric) for c in columns], f"{file}: column")
    _no_twice([(r.group, r.name) for r in rows], f"{file}: row")
    places = [(key, place) for key, e in errata.items() for place in e.where if place.table == name]
    for key, place in places:
        _check_place(place, rows, columns, f"runs/published/errata.yaml, {key}")
    corrected = _corrected(content.get("corrected", ()), rows, columns, errata, file)
    interval = content.get("interval", "none")
    if interval not in PRINTED:
        raise InputError(f"{file}: {unknown('interval', str(interval), PRINTED)}")
    values, missing = {}, {}
    for r, (row, numbers) in enumerate(zip(rows, written, strict=True)):
        where = f"{file}, row {r + 1} ({row.name})"
        own = [c for c, column in enumerate(columns) if not row.column_groups or column.group in row.column_groups]
        if len(numbers) != len(own):
            raise InputError(f"{where}: {len(numbers)} values for {len(own)} columns; write null for a dash")
        for c, text in zip(own, numbers, strict=True):
            if text is None or text in NO_NUMBER:
                missing[r, c] = "-" if text is None else text
                continue
            marks = tuple(k for k, place in places if not place.whole_table and place.holds(row, columns[c]))
            values[r, c] = _value(text, interval, _kind(row, columns[c], where), marks, errata, where)
            if (r, c) in corrected:
                values[r, c] = _correct(values[r, c], *corrected.pop((r, c)), interval, where)
    if corrected:
        raise InputError(f"{file}: corrected: row {rows[min(corrected)[0]].name}: has no number there to be corrected")
    facts = {key: content[key] for key in content if key != "corrected"} | {"columns": columns, "rows": tuple(rows)}
    marks = tuple(dict.fromkeys(key for key, _ in places))
    facts |= {"work": work, "number": number, "values": values, "missing": missing, "errata": marks}
    return _build(PublishedTable, facts, file)


def _kind(row: PublishedRow, column: PublishedColumn, where: str) -> Kind:
    if row.kind and not column.kind:
        return row.kind
    if column.kind and not row.kind:
        return column.kind
    raise InputError(f"{where}, column {column.name}: the row or the column has to have a kind, and not both")


def _value(
    text: Any, interval: str, kind: Kind, marks: tuple[str, ...], errata: Mapping[str, Erratum], where: str
) -> Value:
    value, half_width, about = _number(text, interval, where)
    target = all(errata[mark].target for mark in marks)
    note = "printed as approximate" if about else ""
    return Value(value, text, half_width, kind, note, marks, target=target)


def _number(text: Any, interval: str, where: str) -> tuple[float, float | None, bool]:
    """The number, what stands beside it, and whether it is printed as approximate."""
    match = PRINTED[interval].fullmatch(text) if isinstance(text, str) else None
    if match is None:
        like = {"none": '"49.61"', "ci95": '"49.61 ± 0.92"', "std": '"62 (3.5)"'}[interval]
        raise InputError(f"{where}: {text!r} is no number as this table has them; write it like {like}, in quotes")
    beside = match[3] if interval != "none" else None
    return float(match[2]), float(beside) if beside else None, bool(match[1])


def _corrected(
    written: Iterable[Mapping[str, Any]],
    rows: Sequence[PublishedRow],
    columns: Sequence[PublishedColumn],
    errata: Mapping[str, Erratum],
    file: str,
) -> dict[tuple[int, int], tuple[str, str]]:
    """(row, column) -> the number to compare with instead, as text, and the table that prints it."""
    found: dict[tuple[int, int], tuple[str, str]] = {}
    for entry in written:
        where = f"{file}: corrected: row {entry.get('row')}"
        _keys(entry, ("group", "row", "values", "source", "erratum"), where)
        at = [i for i, row in enumerate(rows) if (row.group, row.name) == (entry.get("group", ""), entry.get("row"))]
        if not at:
            raise InputError(f"{where}: the table has no such row")
        if entry.get("erratum") not in errata:
            raise InputError(f"{where}: {unknown('erratum', str(entry.get('erratum')), errata)}")
        if entry.get("source") not in published_names():
            raise InputError(f"{where}: {unknown('published table', str(entry.get('source')), published_names())}")
        if len(entry.get("values", ())) != len(columns):
            raise InputError(f"{where}: {len(entry.get('values', ()))} values for {len(columns)} columns")
        found |= {(at[0], c): (text, entry["source"]) for c, text in enumerate(entry["values"]) if text is not None}
    return found


def _correct(value: Value, text: str, source: str, interval: str, where: str) -> Value:
    number, half_width, _ = _number(text, interval, where)
    return dataclasses.replace(value, corrected=number, corrected_half_width=half_width, corrected_source=source)


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


def _no_twice(keys: Sequence[tuple[str, ...]], where: str) -> None:
    for key in keys:
        if keys.count(key) > 1:
            raise InputError(f"{where} {' '.join(filter(None, key))} stands there twice")


def _keys(content: Any, known: Sequence[str], where: str) -> None:
    if not isinstance(content, dict):
        raise InputError(f"{where}: must hold keys and values, not {content!r}")
    for key in content:
        if key not in known:
            raise InputError(f"{where}: {unknown('key', str(key), known)}")


def _build(kind: type[T], content: Mapping[str, Any], where: str) -> T:
    """A dataclass from its fields; lists become tuples."""
    fields = dataclasses.fields(kind)  # type: ignore[arg-type]
    _keys(content, [field.name for field in fields], where)
    for field in fields:
        if field.name not in content and field.default is field.default_factory is dataclasses.MISSING:
            raise InputError(f"{where}: has no {field.name}")
    try:
        return kind(**{key: tuple(value) if isinstance(value, list) else value for key, value in content.items()})
    except InputError as error:
        raise InputError(f"{where}: {error}") from error
