"""Tables as text: all of the papers in all formats, and names that no format may stumble over."""

import csv
import html.parser
import io
import json
import math
import re
import shutil
import subprocess
from itertools import groupby, pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from rich.cells import cell_len

from runs import console
from runs.tables.formats import FILES, latex, latex_text, markdown, numbers, records, terminal, wording
from runs.tables.formats import html as html_format
from runs.tables.formats.layout import Layout, Room
from runs.tables.published import Value, published_names
from runs.tables.table import Cell, Column, Row, SeedResult, Table
from runs.tables.verdicts import Verdict
from tests.runs.made_up import FINDINGS, config, filled

SHARES = (0.0, 0.3, 1.0)
OVERFULL = 1.0  # points that a line of LaTeX may stick out
RUN = re.compile(r"\b[0-9a-f]{32}\b")
UNMARKED = dict.fromkeys(terminal.RAISED.values())  # without the marks of footnotes
everything = pytest.mark.parametrize(
    ("name", "share"), [(name, share) for name in published_names() for share in SHARES]
)


def shown(table, width, monkeypatch, capsys, findings=FINDINGS):
    monkeypatch.setattr(console, "WIDE", width)
    terminal.show(table, findings, console.Console())
    return capsys.readouterr().out


class Reader(html.parser.HTMLParser):
    """The text of a page; every tag is closed, every id there once."""

    def __init__(self, page):
        super().__init__()
        self.texts, self.open, self.tags, self.ids, self.links = [], [], [], [], []
        self.feed(page)
        self.close()
        assert self.open == []
        assert len(self.ids) == len(set(self.ids))

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self.tags.append((tag, found))
        self.ids += [found["id"]] if "id" in found else []
        self.links += [found["href"]] if "href" in found else []
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)

    @property
    def text(self):
        return "".join(self.texts)


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


def facts(table):
    """What every format has to show: the print, the number found, its difference and verdict."""
    for (row, column), cell in table.cells.items():
        yield row.name
        yield numbers.as_printed(cell.published)
        if cell.results:
            yield numbers.found(table, cell, column)
            yield numbers.difference(cell, column)
        if cell.published and cell.published.corrected is not None:
            yield numbers.corrected(cell.published)
        if cell.verdict:
            yield cell.verdict.status
    yield from (erratum.text for erratum in table.errata)


def squeezed(text):
    return "".join(text.split())


@everything
def test_every_table_is_whole_on_the_terminal(name, share, monkeypatch, capsys):
    table = filled(name, share)
    wanted = {
        squeezed(fact).removesuffix("here") for fact in facts(table)
    }  # at 80 columns "cannot run here" is shorter
    for width in (160, 100, 80):
        text = shown(table, width, monkeypatch, capsys)
        there = squeezed(text.translate(UNMARKED))
        assert [fact for fact in wanted if fact not in there] == []
        title, *lines = text.splitlines()
        assert title == table.title
        assert max(map(cell_len, lines), default=0) <= width
        assert all(squeezed(finding.evidence) in there for finding in FINDINGS)
        assert "\x1b" not in text


@everything
def test_every_table_is_whole_in_files(name, share):
    table = filled(name, share)
    tokens = MarkdownIt().enable("table").parse(FILES["md"](table, FINDINGS))
    texts = {
        "md": "\n".join(token.content for token in flat(tokens)),
        "html": Reader(FILES["html"](table, FINDINGS)).text,
    }
    wanted = {squeezed(fact) for fact in (*facts(table), *(finding.claim for finding in FINDINGS))}
    ids = {result.run_id for cell in table.cells.values() for result in cell.results}
    for text in texts.values():
        there = squeezed(text)
        assert [fact for fact in wanted if fact not in there] == []
        assert ids <= set(RUN.findall(text))


def flat(tokens):
    for token in tokens:
        yield from token.children if token.children else [token]


@everything
def test_records_are_the_cells(name, share):
    table = filled(name, share)
    lines = list(csv.DictReader(io.StringIO(FILES["csv"](table, ()))))
    as_json = json.loads(json.dumps(records.as_json(table, FINDINGS), allow_nan=False))
    assert len(lines) == len(as_json["cells"]) == len(table.cells)
    for line, record, ((row, column), cell) in zip(lines, as_json["cells"], table.cells.items(), strict=True):
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
@pytest.mark.parametrize("narrow", [False, True])
def test_parts_hold_every_cell_once_and_fit(name, share, narrow):
    layout = Layout(filled(name, share), narrow=narrow)
    for width in (60, 100, 160, math.inf):
        parts = layout.parts(Room(width, gap=3))
        columns = [column for part in parts for column in part.columns]
        assert columns == list(layout.table.columns)
        places = [
            (line.row, column)
            for part in parts
            for _, lines in part.groups
            for line in lines
            for column in part.columns
            if line.role == "row" and column in line.pieces
        ]
        assert sorted(places, key=repr) == sorted(layout.table.cells, key=repr)
        for part in parts:
            lines = [line for _, some in part.groups for line in some]
            labels = [[*line.label.split("\n"), line.row.group] for line in lines]
            stacks = [[text for label in labels for text in label]]
            stacks += [["kind", *(line.kind for line in lines)]] if layout.kinds else []
            for column in part.columns:
                pieces = (line.pieces[column] for line in lines if column in line.pieces)
                stacks.append([*layout.heading(column), *(piece.text + piece.marks for piece in pieces)])
            together = sum(max(map(len, stack)) for stack in stacks) + 3 * (len(stacks) - 1)
            assert together <= width or len(part.columns) == 1


def test_a_group_of_columns_is_torn_only_where_it_alone_is_too_wide():
    layout = Layout(filled("slk_fewshot/II", 0.3), narrow=True)
    for width in range(60, 160, 5):
        parts = layout.parts(Room(width, gap=3))
        groups = [[group for group, _ in groupby(part.columns, lambda column: column.group)] for part in parts]
        torn = sum(map(len, groups)) > len({column.group for column in layout.table.columns})
        assert not torn or max(len(part.columns) for part in parts) == 1


def test_halves_without_a_row_in_common_stand_below_each_other():
    blocks = wording.blocks(filled("thesis/2.2", 0.0))
    assert [{column.group for column in block} for block in blocks] == [{"NMI/ACC half"}, {"time half"}]
    assert len(wording.blocks(filled("thesis/4.1", 0.0))) == 1


def compiled(tmp_path, tables):
    """The log of a document of these tables."""
    if shutil.which("pdflatex") is None:
        pytest.skip("pdflatex is not installed")
    (tmp_path / "all.tex").write_text(latex.document(tables))
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "all.tex"]
    found = subprocess.run(command, cwd=tmp_path, capture_output=True, timeout=120)
    log = (tmp_path / "all.log").read_text(errors="replace")
    assert found.returncode == 0, log[-2000:]
    assert (tmp_path / "all.pdf").read_bytes().startswith(b"%PDF")
    assert "Missing character" not in log
    return log


def test_every_table_compiles_within_its_page(tmp_path):
    log = compiled(
        tmp_path, [latex.latex(filled(name, share), FINDINGS) for name in published_names() for share in SHARES]
    )
    assert max(map(float, re.findall(r"Overfull \\hbox \((\d+\.\d+)pt", log)), default=0) <= OVERFULL


def test_any_name_compiles(tmp_path):
    signs = [*range(32, 127), *range(0xA0, 0x250), *range(0x370, 0x400), *range(0x2000, 0x2300), 0x1F600]
    text = "".join(map(chr, signs))
    names = [text[i : i + 8] for i in range(0, len(text), 8)]
    compiled(tmp_path, [latex.latex(hostile(names, names[:2]), FINDINGS)])


def hostile(rows, columns, name="thesis/4.1"):
    """A paper's table of rows and columns of these names."""
    value = Value(61.2, "61.20 ± 1.80", 1.8, "own")
    cell = Cell(config(), results=(SeedResult(0, 0.6, 0.01, 100, "a" * 32),), published=value, verdict=Verdict("below"))
    rows = tuple(Row(text, group=text, kind=text, note=text) for text in dict.fromkeys(rows))
    columns = tuple(Column(text, group=text) for text in dict.fromkeys(columns))
    return Table(
        name, rows[0].name, rows, columns, {(r, c): cell for r in rows for c in columns}, notes=(rows[0].name,)
    )


printable = st.text(st.characters(blacklist_categories=("C", "Z")), min_size=1, max_size=12)
special = st.text(st.sampled_from(r"""\|`*_[]<>{}()#+-.!~$%&^'"@:=1aé """), min_size=1, max_size=12)
names = st.lists(st.one_of(printable, special).map(str.strip).filter(bool), min_size=1, max_size=3, unique=True)


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(names)
def test_markdown_shows_names_as_they_are(texts):
    text = FILES["md"](hostile(texts, ["1-shot"]), ())
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
    page = Reader(html_format.page(hostile(texts, texts)))
    known = Reader(html_format.page(hostile(["a", "b", "c"], ["a", "b", "c"])))
    assert {tag for tag, _ in page.tags} <= {tag for tag, _ in known.tags}
    for name in texts:
        assert squeezed(name) in squeezed(page.text)


@settings(deadline=None)
@given(names)
def test_csv_holds_names_as_they_are(texts):
    lines = list(csv.DictReader(io.StringIO(FILES["csv"](hostile(texts, texts), ()))))
    assert {line["row"] for line in lines} == set(texts)


@given(st.one_of(printable, special))
def test_latex_is_left_with_no_sign_of_its_own(text):
    told = latex_text.escape(text)
    assert told.isascii()
    bare = re.sub(r"\$[^$]*\$|\\[a-zA-Z]+\{?\}?|\\['`^\"~]|\\[{}$&#_%]|[{}]", "", told)
    assert not set(bare) & set('\\$&#_%^<>|"')
    assert told.count("{") - told.count("\\{") == told.count("}") - told.count("\\}")


def test_latex_text():
    assert latex_text.escape("λ -> 5 % of a_b & c#") == r"$\lambda$ $\to$ 5 \% of a\_b \& c\#"
    assert latex_text.escape("é ± -0.71 (-2) --x 1-shot") == r"\'{e} $\pm$ $-$0.71 ($-$2) -{}-x 1-shot"


def test_html_is_accessible():
    page = Reader(FILES["html"](filled("thesis/4.1", 0.5), FINDINGS))
    tags = [tag for tag, _ in page.tags]
    assert tags.count("caption") == 2  # the table and the claims
    assert all("scope" in found for tag, found in page.tags if tag == "th")
    assert all("href" not in found or found["href"][1:] in page.ids for tag, found in page.tags if tag == "a")
    assert ("html", {"lang": "en"}) in page.tags
    abbreviations = [
        found["title"] for tag, found in Reader(FILES["html"](filled("thesis/2.2", 0.0), ())).tags if tag == "abbr"
    ]
    assert set(abbreviations) == {wording.ABBREVIATIONS["NMI"], wording.ABBREVIATIONS["ACC"]}


def test_every_row_of_html_is_as_wide_as_its_head():
    for name in published_names():
        width, spans = 0, []
        for tag, found in Reader(FILES["html"](filled(name, 0.3), ())).tags:
            if tag == "tr":
                spans.append([])
            elif tag in ("td", "th"):
                spans[-1].append((int(found.get("colspan", 1)), found.get("rowspan")))
            elif tag == "table":
                spans, width = [], 0
            if tag == "tr" and len(spans) > 3:
                width = width or sum(span for span, _ in spans[0])
                assert sum(span for span, _ in spans[-2]) == width


def test_html_links_to_runs():
    table = filled("thesis/4.1", 0.5, 2)
    page = Reader(html_format.table(table, lambda run_id: f"runs.html#{run_id}"))
    found = {link.partition("#")[2] for link in page.links if link.startswith("runs.html")}
    near = {cell.near.run_id for cell in table.cells.values() if cell.near}
    assert found == {r.run_id for cell in table.cells.values() for r in cell.results} | near
    assert not [link for link in Reader(html_format.table(table)).links if not link.startswith("#")]


def test_verdicts_are_words_and_colours_only_beside_them(monkeypatch, capsys):
    table = filled("thesis/4.1", 1.0)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.delenv("NO_COLOR", raising=False)
    terminal.show(table, (), console.Console())
    coloured = capsys.readouterr().out
    monkeypatch.setenv("NO_COLOR", "1")
    terminal.show(table, (), console.Console())
    plain = capsys.readouterr().out
    assert "\x1b[32m" in coloured
    assert "\x1b[32m" not in plain
    assert re.sub(r"\x1b\[[\d;]*m", "", coloured) == re.sub(r"\x1b\[[\d;]*m", "", plain)
    assert "reproduced" in plain


@given(st.floats(-1e6, 1e6), st.integers(0, 4))
def test_what_was_found_has_the_digits_of_the_print(value, decimals):
    printed = f"{value:.{decimals}f}"
    cell = Cell(
        config(), results=(SeedResult(0, value, math.nan, 1, "r"),), published=Value(value, printed, None, "own")
    )
    found = numbers.found(hostile(["a"], ["b"]), cell, Column("x", unit=""))
    assert float(found) == float(printed)
    assert len(found.partition(".")[2]) == decimals


def test_a_cell_without_a_print_has_the_digits_of_its_column():
    column = Column("NMI", unit="")
    printed, free = (
        Cell(config(), results=(SeedResult(0, 0.88114, math.nan, 1, "r"),), published=value)
        for value in (Value(0.81, ".81", None, "own"), None)
    )
    cells = {(Row("K-means"), column): printed, (Row("LK"), column): free}
    table = Table("slk/2", "", (Row("LK"), Row("K-means")), (column,), cells)
    assert numbers.found(table, free, column) == numbers.found(table, printed, column)


@given(st.floats(-1e6, 1e6).filter(lambda value: abs(value) > 1e-3))
def test_powers_of_ten_are_written_as_in_print(value):
    cell = Cell(
        config(), results=(SeedResult(0, value, math.nan, 1, "r"),), published=Value(1, "-1.80777e3", None, "own")
    )
    found = numbers.found(hostile(["a"], ["b"]), cell, Column("x", unit=""))
    assert re.fullmatch(r"-?\d\.\d{5}e-?\d", found)
    assert float(found) == pytest.approx(value, rel=1e-5)


def test_on_another_benchmark_nothing_is_held_against_the_print():
    for share in (0.0, 0.7):
        table = filled("thesis/4.4@glyphs", share)
        for text in (FILES["md"](table, ()), FILES["html"](table, ()), FILES["tex"](table, ())):
            assert share or not re.search(r"\d\d\.\d\d", text)
            assert "corrected" not in text
            assert "other protocol" in text if share else "not run" in text
        for record in records.records(table):
            assert record.published is record.difference is None
            assert record.verdict in ("other protocol", "not run")


def test_numbers_are_in_the_unit_of_their_column():
    cell = Cell(config(), results=(SeedResult(0, 0.7149, 0.0123, 100, "r"),))
    table = hostile(["a"], ["b"])
    assert numbers.found(table, cell, Column("x", unit="%")) == "71.49 ± 1.23"
    assert numbers.found(table, cell, Column("x", unit="s")) == "0.7149 ± 0.0123"
    assert numbers.found(table, Cell(None), Column("x")) == "not run"


@given(st.floats(-1, 1).filter(lambda value: abs(value) > 1e-9), st.integers(0, 3))
def test_a_difference_that_counts_is_not_shown_as_none(difference, decimals):
    printed = Value(1.0, f"{1:.{decimals}f}", None, "own")
    for status in ("above", "reproduced"):
        cell = Cell(config(), published=printed, verdict=Verdict(status, difference=difference))
        shown = float(numbers.difference(cell, Column("x", unit="")))
        assert (shown != 0) >= (status == "above")
        assert shown == pytest.approx(difference, abs=0.5 * 10**-decimals + 1e-12)


def test_quoted_rows_are_marked_as_quoted(monkeypatch, capsys):
    table = filled("thesis/4.1", 0.0)
    quoted = [row for row in table.rows if row.kind == "quoted"]
    lines = shown(table, 160, monkeypatch, capsys).splitlines()
    assert sum("  quoted  " in line for line in lines) == len(quoted)
    assert FILES["md"](table, ()).count("| quoted |") == len(quoted)
    assert FILES["tex"](table, ()).count("& quoted &") >= len(quoted)  # once in each part
    assert FILES["html"](table, ()).count("<td>quoted</td>") == len(quoted)


def test_seeds_are_counted_where_the_title_does_not():
    table = filled("thesis/4.4", 1.0, 3)
    assert "3 seeds" in table.title
    assert "(n=" not in FILES["md"](table, ())
    row, column = next(iter(table.cells))
    cells = dict(table.cells)
    cells[row, column] = filled("thesis/4.4", 1.0, 2).cells[row, column]
    mixed = Table(table.name, table.about, table.rows, table.columns, cells)
    assert FILES["md"](mixed, ()).count("(n=2)") == 1
    assert FILES["md"](mixed, ()).count("(n=3)") == len(cells) - 1


def test_what_the_paper_scored_otherwise_is_shown_as_it_scored():
    table = filled("thesis/4.4", 1.0)
    cell = next(cell for cell in table.cells.values() if cell.scored and cell.published.corrected is None)
    text = FILES["md"](table, ())
    assert "| *scored as printed* |" in text
    assert "best permutation" in text
    assert f"{100 * cell.as_printed:.2f}" in text


def test_footnotes_are_marked_in_order_and_found_below():
    table = filled("thesis/4.1", 0.0)
    text = markdown.markdown(table)
    marks = list(dict.fromkeys(re.findall(r"\d<sup>([a-z]+)</sup>", text)))
    assert [mark for mark in "abcd" if any(mark in m for m in marks)] == list("abcd")
    for mark in "abcd":
        assert f"- <sup>{mark}</sup> E" in text
