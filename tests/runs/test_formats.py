"""Tables as text: all of the papers in all formats."""

import csv
import io
import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from rich.cells import cell_len

from runs.console import output as console
from runs.tables import formats, layout
from runs.tables.cell import Cell, SeedResult
from runs.tables.formats import FILES
from runs.tables.papers.published import published_names
from tests.runs.made_up import FINDINGS, filled
from tests.runs.pages import Reader, squeezed

UNMARKED = dict.fromkeys(formats.RAISED.values())  # without the marks of footnotes
everything = pytest.mark.parametrize("name", published_names())
SHARE = 0.3  # of cells with a run


def shown(table, width, monkeypatch, capsys):
    monkeypatch.setattr(console, "WIDE", width)
    formats.show(table, console.Console())
    return capsys.readouterr().out


def facts(table):
    """What every format has to show: the print, the number found, its difference and verdict."""
    for cell in table.cells:
        yield from (cell.row, cell.printed or "-", layout.corrected(cell), cell.verdict or "")
        if cell.results:
            column = (one.printed for one in table.cells if one.column_key == cell.column_key and one.printed)
            yield from (layout.measured(cell, next(column, "")), layout.difference(cell))
    yield from (erratum.text for erratum in table.errata)


@everything
def test_every_table_is_whole_on_the_terminal(name, monkeypatch, capsys):
    table = filled(name, SHARE)
    wanted = {squeezed(fact) for fact in facts(table)}
    for width in (160, 100, 80):
        text = shown(table, width, monkeypatch, capsys)
        there = squeezed(text.translate(UNMARKED))
        assert [fact for fact in wanted if fact not in there] == []
        title, *others = text.splitlines()
        assert title == table.title
        assert max(map(cell_len, others), default=0) <= width
        assert all(squeezed(finding.evidence) in there for finding in FINDINGS)
        assert "\x1b" not in text


@everything
def test_every_table_is_whole_in_files(name):
    table = filled(name, SHARE)
    tokens = MarkdownIt().enable("table").parse(FILES["md"](table))
    texts = {
        "md": "\n".join(token.content for token in flat(tokens)),
        "html": Reader(FILES["html"](table)).text,
    }
    wanted = {squeezed(fact) for fact in (*facts(table), *(finding.claim for finding in FINDINGS))}
    for text in texts.values():
        there = squeezed(text)
        assert [fact for fact in wanted if fact not in there] == []


def flat(tokens):
    for token in tokens:
        yield from token.children if token.children else [token]


@everything
def test_records_are_the_cells(name):
    table = filled(name, SHARE)
    written = list(csv.DictReader(io.StringIO(FILES["csv"](table))))
    as_json = json.loads(json.dumps(formats.as_json(table), allow_nan=False))
    assert len(written) == len(as_json["cells"]) == len(table.cells)
    for line, record, cell in zip(written, as_json["cells"], table.cells, strict=True):
        assert list(line) == list(record)
        headings = ("row_group", "row", "column_group", "column", "metric")
        assert tuple(line[name] for name in headings) == tuple(record[name] for name in headings) == cell.place
        assert line["runs"].split() == record["runs"] == [result.run_id for result in cell.results]
        if cell.printed:
            assert float(line["published"]) == record["published"] == cell.published
            assert line["kind"] == cell.kind
        if cell.results:
            assert float(line["reproduced"]) == pytest.approx(cell.scale * cell.value)
            assert float(line["half_width"]) == pytest.approx(cell.scale * cell.half_width)
        else:
            assert line["reproduced"] == ""
            assert record["reproduced"] is None
        assert line["verdict"] == (cell.verdict or "")


def cell(**fields):
    return Cell(row="a", column="b", **fields)


@given(st.floats(-1e6, 1e6), st.integers(0, 4))
def test_what_was_found_has_the_digits_of_the_print(value, decimals):
    printed = f"{value:.{decimals}f}"
    found = layout.measured(cell(unit="", results=(SeedResult(0, value, math.nan, 1),), printed=printed))
    assert float(found) == float(printed)
    assert len(found.partition(".")[2]) == decimals


@given(st.floats(-1, 1).filter(lambda value: abs(value) > 1e-9), st.integers(0, 3))
def test_a_difference_that_counts_is_not_shown_as_none(difference, decimals):
    for status in ("above", "reproduced"):
        printed = f"{1:.{decimals}f}"
        shown = float(layout.difference(cell(unit="", printed=printed, verdict=status, difference=difference)))
        assert (shown != 0) >= (status == "above")
        assert shown == pytest.approx(difference, abs=0.5 * 10**-decimals + 1e-12)
