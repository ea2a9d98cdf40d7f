"""Tables as text: all of the papers in all formats, names with any signs, LaTeX that compiles, links, the terminal."""

import csv
import io
import json
import math
import posixpath
import re
import shutil
import subprocess
from itertools import pairwise
from urllib.parse import urlsplit

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from rich.cells import cell_len

from runs.console import output as console
from runs.report.rendering import relative, slug
from runs.tables import formats, layout
from runs.tables.formats import FILES, PACKAGES, latex, latex_text
from runs.tables.published import published_names
from runs.tables.table import Cell, SeedResult
from tests.runs.made_up import FINDINGS, SHARES, filled, hostile
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


def test_on_another_benchmark_nothing_is_held_against_the_print():
    for share in (0.0, 0.7):
        table = filled("thesis/4.4@glyphs", share)
        for text in (FILES["md"](table), FILES["html"](table)):
            assert share or not re.search(r"\d\d\.\d\d", text)
            assert "corrected" not in text
            assert "other protocol" in text if share else "not run" in text
        for record in formats.records(table):
            assert record["published"] is record["difference"] is None
            assert record["verdict"] in ("other protocol", "not run")


def cell(**fields):
    return Cell(row="a", column="b", **fields)


@given(st.floats(-1e6, 1e6), st.integers(0, 4))
def test_what_was_found_has_the_digits_of_the_print(value, decimals):
    printed = f"{value:.{decimals}f}"
    found = layout.measured(cell(unit="", results=(SeedResult(0, value, math.nan, 1),), printed=printed))
    assert float(found) == float(printed)
    assert len(found.partition(".")[2]) == decimals


def test_numbers_are_in_the_unit_of_their_column():
    results = (SeedResult(0, 0.7149, 0.0123, 100),)
    assert layout.measured(cell(results=results, unit="%")) == "71.49 ± 1.23"
    assert layout.measured(cell(results=results, unit="s")) == "0.7149 ± 0.0123"
    assert layout.measured(cell()) == "not run"


@given(st.floats(-1, 1).filter(lambda value: abs(value) > 1e-9), st.integers(0, 3))
def test_a_difference_that_counts_is_not_shown_as_none(difference, decimals):
    for status in ("above", "reproduced"):
        printed = f"{1:.{decimals}f}"
        shown = float(layout.difference(cell(unit="", printed=printed, verdict=status, difference=difference)))
        assert (shown != 0) >= (status == "above")
        assert shown == pytest.approx(difference, abs=0.5 * 10**-decimals + 1e-12)


def markdown_cells(text):
    """The cells of the tables of a Markdown text, as a reader sees them."""
    tokens = MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(text)
    cells = []
    for before, token in pairwise(tokens):
        if before.type in ("td_open", "th_open"):
            kept = [child for child in token.children if child.type != "html_inline"]
            assert {child.type for child in kept} <= {
                "text",
                "text_special",
                "em_open",
                "em_close",
                "strong_open",
                "strong_close",
            }
            cells.append("".join(child.content for child in kept))
    return cells


printable = st.text(st.characters(blacklist_categories=("C", "Z")), min_size=1, max_size=12)
special = st.text(st.sampled_from(r"""\|`*_[]<>{}()#+-.!~$%&^'"@:=1aé """), min_size=1, max_size=12)
names = st.lists(st.one_of(printable, special).map(str.strip).filter(bool), min_size=1, max_size=3, unique=True)


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(names)
def test_markdown_shows_names_as_they_are(texts):
    text = FILES["md"](hostile(texts, ["1-shot"]))
    cells = [squeezed(cell) for cell in markdown_cells(text)]
    for name in texts:
        assert squeezed(name) in cells  # of its group
        assert any(
            cell.startswith(squeezed(name)) and len(cell) > len(squeezed(name)) for cell in cells
        )  # with its mark
    assert "<" not in re.sub(r"</?sup>|\\<|[^\s]*&lt;", "", text)


@settings(deadline=None)
@given(names)
def test_html_shows_names_as_they_are(texts):
    page = Reader(FILES["html"](hostile(texts, texts)))
    known = Reader(FILES["html"](hostile(["a", "b", "c"], ["a", "b", "c"])))
    assert {tag for tag, _ in page.tags} <= {tag for tag, _ in known.tags}
    for name in texts:
        assert squeezed(name) in squeezed(page.text)


@settings(deadline=None)
@given(names)
def test_csv_holds_names_as_they_are(texts):
    lines = list(csv.DictReader(io.StringIO(FILES["csv"](hostile(texts, texts)))))
    assert {line["row"] for line in lines} == set(texts)


@given(st.one_of(printable, special))
def test_latex_is_left_with_no_sign_of_its_own(text):
    told = latex_text(text)
    bare = re.sub(r"\$[^$]*\$|\\[a-zA-Z]+\{\}|\\[{}$&#_%]", "", told)
    assert not set(bare) & set("\\${}&#_%^<>|")


needs_latex = pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not installed")
OVERFULL = 1.0  # points that a line of LaTeX may stick out


def compiled(tmp_path, tables):
    """The log of a document of these tables."""
    packages = "".join(f"\\usepackage{{{package}}}\n" for package in PACKAGES)
    body = "\\clearpage\n".join(tables)
    text = f"\\documentclass{{article}}\n{packages}\\begin{{document}}\n{body}\\end{{document}}\n"
    (tmp_path / "all.tex").write_text(text)
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "all.tex"]
    found = subprocess.run(command, cwd=tmp_path, capture_output=True, timeout=120)
    log = (tmp_path / "all.log").read_text(errors="replace")
    assert found.returncode == 0, log[-2000:]
    assert (tmp_path / "all.pdf").read_bytes().startswith(b"%PDF")
    assert "Missing character" not in log
    return log


@needs_latex
def test_every_table_compiles_within_its_page(tmp_path):
    log = compiled(tmp_path, [latex(filled(name, share)) for name in published_names() for share in SHARES])
    assert max(map(float, re.findall(r"Overfull \\hbox \((\d+\.\d+)pt", log)), default=0) <= OVERFULL


def test_verdicts_and_claims_are_not_inside():
    for name in published_names():
        text = latex(filled(name, 1.0))
        assert "\\bottomrule" in text or "noindent" in text
        assert not re.search(r"reproduced|papers claim|better than SimpleShot|textsuperscript", text)


@needs_latex
def test_any_name_compiles(tmp_path):
    text = "".join(map(chr, [*range(32, 127), *range(0xC0, 0x100)]))
    names = [text[i : i + 8] for i in range(0, len(text), 8)]
    compiled(tmp_path, [latex(hostile(names, names[:2]))])


paths = st.lists(st.text("ab.-", min_size=1).map(slug), min_size=1, max_size=3).map(
    lambda parts: "/".join(parts) + ".html"
)


@given(paths, paths, st.sampled_from(["", "#here"]))
def test_links_lead_where_they_say(page, target, anchor):
    link = relative(page, target + anchor)
    assert not posixpath.isabs(link)
    place = posixpath.normpath(posixpath.join(posixpath.dirname(page), urlsplit(link).path)) if link[0] != "#" else page
    assert place == target
    assert link.endswith(anchor)


@given(st.sets(st.text(max_size=20) | st.text("aA/", max_size=3), max_size=20))
@example({"evaluate/Tiny", "evaluate/tiny", "Index", "a ", "a"})
def test_names_of_files_are_apart_on_any_disk(texts):
    found = {slug(text) for text in texts if set(text) - set("-./@")}
    assert len({name.lower() for name in found}) == len([text for text in texts if set(text) - set("-./@")])
    assert all(set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789_.-") for name in found)


def test_a_name_cannot_control_the_terminal(capsys):
    """The name of an imported run may hold an escape sequence, which could clear the screen."""
    console.Console().note("run \x1b[2Ja\x9b1m\r of\t\n  two lines")
    assert capsys.readouterr().err == "run ?[2Ja?1m? of\t\n  two lines\n"


def test_a_table_on_a_screen_that_is_too_narrow(monkeypatch, capsys):
    rows = [{"strategy": "a_long_name_of_a_strategy", "accuracy": "50.00", "remark": "several words"}]
    console.Console().table(rows, title="title")
    assert "a_long_name_of_a_strategy   50.00" in capsys.readouterr().out
    monkeypatch.setenv("COLUMNS", "30")
    console.Console().table(rows, title="title")
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if rows[0]["strategy"] in line and "50.00" in line]
    assert all(word in " ".join(lines) for word in ("title", "accuracy", "several", "words"))
