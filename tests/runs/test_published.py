"""The numbers of the papers in the package, their errata and causes."""

import csv
import json
import os
from collections import Counter
from importlib import resources
from pathlib import Path

import jsonschema
import pytest
import yaml

from clustering.foundation.errors import InputError
from runs.tables.published import (
    Erratum,
    build,
    causes,
    errata,
    figures,
    published_names,
    published_table,
    table_from,
    table_schema,
    works,
)

TABLES = [published_table(name) for name in published_names()]
FOLDER = resources.files("runs") / "published"


def numbers():
    for table in TABLES:
        for cell in table.numbers:
            yield table, cell


APART = ("rs_transclip", "transclip", "stata")  # works whose numbers are not in cells.csv


def test_every_number_of_the_source_is_there_exactly_once():
    source = Path(os.environ.get("TRANSDUCE_DATA", "none")).parent / "published" / "cells.csv"
    if not source.is_file():
        pytest.skip("no cells.csv beside $TRANSDUCE_DATA")
    with source.open(newline="", encoding="utf-8") as file:
        wanted = Counter(
            (*(row[key] for key in ("work", "table", "row_group", "row", "column_group", "column", "metric")),
             row["value"], row["ci"], row["unit"], row["kind"], "tilde" in row["note"])
            for row in csv.DictReader(file)
        )  # fmt: skip
    found = Counter()
    for table, cell in numbers():
        work, _, number = table.name.partition("/")
        if work in APART:
            continue
        digits, _, beside = cell.printed.lstrip("~").replace(" ± ", " (").rstrip(")").partition(" (")
        place = (work, number, *cell.place)
        found[(*place, digits, beside, cell.unit, cell.kind, cell.printed.startswith("~"))] += 1
        assert cell.published == float(digits)
        assert cell.published_half_width == (float(beside) if beside else None)
    assert found == wanted


def heading(cell):
    """Method, network, data and shots of a cell as all works would write them; "" where it has no such heading."""
    method = {"N(Y)+L(Y)+rectified prototype": "LaplacianShot"}.get(cell.row, cell.row.partition(" (")[0])
    return method, cell.row_group.partition(";")[0], cell.column_group.replace("-", ""), cell.column, cell.metric


def test_corrected_targets_are_what_their_source_prints():
    corrected = [(table, cell) for table, cell in numbers() if cell.corrected is not None]
    for table, cell in corrected:
        here = heading(cell)
        printed = {
            other.published
            for source, other in numbers()
            if source.name == cell.corrected_source
            and all(one in ("", two) for one, two in zip(here, heading(other), strict=True))
        }
        place = f"{table.name}, {cell.row_name}, {cell.column_name}"
        assert cell.corrected in printed, f"{place}: corrected to {cell.corrected}, but its source prints {printed}"
        assert len(printed) == 1 or "" in here, f"{place}: its source prints {printed}"
    count = len(corrected)
    assert count == 16, "the number of corrections, to be changed with a new one"


def test_errata_point_into_tables_and_figures():
    names, drawn = published_names(), {figure.name for figure in figures()}
    for erratum in errata().values():
        assert erratum.where
        for place in erratum.where:
            assert set(place.figures) <= drawn
            assert (place.table in names) != bool(place.figures)
            if place.table:
                assert erratum.id in published_table(place.table).errata


def test_every_file_is_listed_and_every_work_has_a_title():
    files = {f"{path.parent.name}/{path.stem}" for path in Path(str(FOLDER)).glob("*/*.yaml")}
    assert files == set(published_names())
    assert list(works()) == list(dict.fromkeys(table.name.partition("/")[0] for table in TABLES))


def test_an_unknown_name_gets_the_nearest_right_one():
    with pytest.raises(InputError, match=r"'thesis/4\.1'"):
        published_table("thesis/4,1")


def raw(name):
    return yaml.safe_load((FOLDER / f"{name}.yaml").read_text(encoding="utf-8"))


WRONG = [
    (lambda t: t.update(colums=[]), "thesis/4.1.yaml, colums: unknown key$"),
    (lambda t: t.update(interval="sem"), "interval: .*'sem'"),
    (lambda t: t["columns"][0].update(metric=3), "columns, 1, metric: .*, not 3"),
    (lambda t: t["columns"][0].pop("better"), "columns, 1, better: field required$"),
    (lambda t: t["rows"][2].update(kind="mine"), "rows, 3, kind: .*'mine'"),
    (lambda t: t["rows"][0]["values"].__setitem__(0, 49.61), "rows, 1, values, 1.*49.61"),
    (lambda t: t["rows"][0].pop("kind"), "row 1 .MAML.: give the row or its columns a kind .own, rerun"),
    (lambda t: t["rows"][3]["values"].pop(), r"row 4 \(MatchingNet\): 3 values for 4 columns"),
    (lambda t: t["rows"][0]["values"].__setitem__(0, "49.61 (0.92)"), r"row 1 \(MAML\): '49.61 \(0.92\)'"),
]


@pytest.mark.parametrize(("change", "says"), WRONG)
def test_a_wrong_file_is_refused_with_the_place(change, says):
    content = raw("thesis/4.1")
    change(content)
    with pytest.raises(InputError, match=says):
        table_from("thesis/4.1", content)


@pytest.fixture(scope="module")
def schema():
    """That of the models; the file that editors read is the same: to renew it, write `table_schema()` as JSON."""
    content = json.loads((FOLDER / "table.schema.json").read_text(encoding="utf-8"))
    assert content == table_schema()
    jsonschema.Draft202012Validator.check_schema(content)
    return jsonschema.Draft202012Validator(content)


@pytest.mark.parametrize("name", published_names())
def test_every_file_is_as_the_schema_says(name, schema):
    schema.validate(raw(name))
    assert (FOLDER / f"{name}.yaml").read_text(encoding="utf-8").startswith("# yaml-language-server: $schema=../table")


@pytest.mark.parametrize("change", [{"severity": "mild"}, {"where": [{"row": "MAML"}]}, {"why": "because"}])
def test_a_wrong_erratum_is_refused(change):
    content = {"id": "E34", "where": [{"table": "thesis/4.1"}], "severity": "high", "text": "text"}
    assert build(Erratum, content, "here").id == "E34"
    with pytest.raises(InputError, match=f"here, {next(iter(change))}"):
        build(Erratum, content | change, "here")


def test_places_hold_cells_and_headings_are_apart():
    places = [place for one in (*errata().values(), *causes().values()) for place in one.where if place.table]
    for place in places:
        table = published_table(place.table)
        known = [{row.group for row in table.rows}, {row.name for row in table.rows}]
        known += [{getattr(column, name) for column in table.columns} for name in ("group", "name", "metric")]
        assert all({*names} <= right for names, right in zip(place.names, known, strict=True)), place
        assert any(place.holds(cell) for cell in table.cells), place
    for table in TABLES:
        headings = [(one.group, one.name, one.metric) for one in table.columns]
        headings += [(one.group, one.name) for one in table.rows]
        assert max(Counter(headings).values(), default=1) == 1, table.name
        assert {group for row in table.rows for group in row.column_groups} <= {one.group for one in table.columns}
        assert all(entry.source in published_names() and entry.erratum in errata() for entry in table.corrected)
        kinds = {row.kind for row in table.rows}, {column.kind for column in table.columns}
        assert {None} in kinds or not table.numbers
        assert None not in kinds[kinds[0] == {None}] or not table.numbers


def test_no_cell_has_two_causes_and_pages_are_there():
    cells = Counter(
        (place.table, cell.place)
        for cause in causes().values()
        for place in cause.where
        for cell in published_table(place.table).cells
        if place.holds(cell)
    )
    assert cells
    assert set(cells.values()) == {1}
    pages = [cause.evidence.partition(",")[0] for cause in causes().values() if cause.evidence.startswith("docs/")]
    assert [page for page in pages if not (Path(__file__).parents[2] / page).is_file()] == []
