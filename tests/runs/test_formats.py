"""Tables as text: all of the papers in all formats."""

import csv
import io
import json
import re

import pytest
from markdown_it import MarkdownIt
from rich.cells import cell_len

from runs.console import output as console
from runs.tables.formats import FILES, lines, markdown, numbers, records, terminal, wording
from runs.tables.formats import html as html_format
from runs.tables.papers.published import published_names
from tests.runs.made_up import FINDINGS, SHARES, filled
from tests.runs.pages import Reader, squeezed

UNMARKED = dict.fromkeys(terminal.RAISED.values())  # without the marks of footnotes
everything = pytest.mark.parametrize(
    ("name", "share"),
    [
        pytest.param(name, share, marks=[pytest.mark.slow] * (share in (0.0, 1.0)))
        for name in published_names()
        for share in SHARES
    ],
)


def shown(table, width, monkeypatch, capsys):
    monkeypatch.setattr(console, "WIDE", width)
    terminal.show(table, console.Console())
    return capsys.readouterr().out


def facts(table):
    """What every format has to show: the print, the number found, its difference and verdict."""
    for (row, column), cell in table.cells.items():
        yield row.name
        yield numbers.as_printed(cell.published)
        if cell.results:
            yield numbers.measured(table, cell, column)
            yield numbers.difference(cell, column)
        if cell.published and cell.published.corrected is not None:
            yield numbers.corrected(cell.published)
        if cell.verdict:
            yield cell.verdict.status
    yield from (erratum.text for erratum in table.errata)


@everything
def test_every_table_is_whole_on_the_terminal(name, share, monkeypatch, capsys):
    table = filled(name, share)
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
def test_every_table_is_whole_in_files(name, share):
    table = filled(name, share)
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
def test_records_are_the_cells(name, share):
    table = filled(name, share)
    written = list(csv.DictReader(io.StringIO(FILES["csv"](table))))
    as_json = json.loads(json.dumps(records.as_json(table), allow_nan=False))
    assert len(written) == len(as_json["cells"]) == len(table.cells)
    for line, record, ((row, column), cell) in zip(written, as_json["cells"], table.cells.items(), strict=True):
        assert list(line) == list(record)
        assert (record["row_group"], record["row"]) == (row.group, row.name)
        assert (line["column_group"], line["column"], line["metric"]) == (column.group, column.name, column.metric)
        assert line["runs"].split() == record["runs"] == [result.run_id for result in cell.results]
        if cell.published:
            assert float(line["published"]) == record["published"] == cell.published.value
            assert line["kind"] == cell.published.kind
        if cell.results:
            assert float(line["reproduced"]) == pytest.approx(column.scale * cell.value)
            assert float(line["half_width"]) == pytest.approx(column.scale * cell.half_width)
        else:
            assert line["reproduced"] == ""
            assert record["reproduced"] is None
        assert line["verdict"] == (cell.verdict.status if cell.verdict else "")


@everything
def test_parts_hold_every_cell_once_and_fit(name, share):
    table = filled(name, share)
    shown = lines.lines(table)
    for width in (60, 100, 160, 10**6):
        parts = lines.parts(table, shown, width)
        assert [column for columns in parts for column in columns] == list(table.columns)
        places = [
            (line.row, column)
            for columns in parts
            for _, some in lines.by_group(shown, columns)
            for line in some
            for column in columns
            if line.first and column in line.pieces
        ]
        assert sorted(places, key=repr) == sorted(table.cells, key=repr)


def test_html_is_accessible():
    page = Reader(FILES["html"](filled("thesis/4.1", 0.5)))
    tags = [tag for tag, _ in page.tags]
    assert tags.count("caption") == 2  # the table and the claims
    assert all("scope" in found for tag, found in page.tags if tag == "th")
    assert all("href" not in found or found["href"][1:] in page.ids for tag, found in page.tags if tag == "a")
    assert ("html", {"lang": "en"}) in page.tags
    abbreviations = [
        found["title"] for tag, found in Reader(FILES["html"](filled("thesis/2.2", 0.0))).tags if tag == "abbr"
    ]
    assert set(abbreviations) == {wording.ABBREVIATIONS["NMI"], wording.ABBREVIATIONS["ACC"]}


def test_html_links_to_runs():
    table = filled("thesis/4.1", 0.5, 2)
    page = Reader(html_format.table(table, lambda run_id: f"runs.html#{run_id}"))
    found = {link.partition("#")[2] for link in page.links if link.startswith("runs.html")}
    assert found == {r.run_id for cell in table.cells.values() for r in cell.results}
    assert not [link for link in Reader(html_format.table(table)).links if not link.startswith("#")]


def test_verdicts_are_words_and_colours_only_beside_them(monkeypatch, capsys):
    table = filled("thesis/4.1", 1.0)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.delenv("NO_COLOR", raising=False)
    terminal.show(table, console.Console())
    coloured = capsys.readouterr().out
    monkeypatch.setenv("NO_COLOR", "1")
    terminal.show(table, console.Console())
    plain = capsys.readouterr().out
    assert "\x1b[32m" in coloured
    assert "\x1b[32m" not in plain
    assert re.sub(r"\x1b\[[\d;]*m", "", coloured) == re.sub(r"\x1b\[[\d;]*m", "", plain)
    assert "reproduced" in plain


def test_on_another_benchmark_nothing_is_held_against_the_print():
    for share in (0.0, 0.7):
        table = filled("thesis/4.4@glyphs", share)
        for text in (FILES["md"](table), FILES["html"](table), FILES["tex"](table)):
            assert share or not re.search(r"\d\d\.\d\d", text)
            assert "corrected" not in text
            assert "other protocol" in text if share else "not run" in text
        for record in records.records(table):
            assert record["published"] is record["difference"] is None
            assert record["verdict"] in ("other protocol", "not run")


def test_footnotes_are_marked_in_order_and_found_below():
    table = filled("thesis/4.1", 0.0)
    text = markdown.markdown(table)
    marks = list(dict.fromkeys(re.findall(r"\d<sup>([a-z]+)</sup>", text)))
    assert [mark for mark in "abcd" if any(mark in m for m in marks)] == list("abcd")
    for mark in "abcd":
        assert f"- <sup>{mark}</sup> E" in text
