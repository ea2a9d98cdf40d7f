"""Names that no format may stumble over: each comes out as it is, whatever signs it has."""

import csv
import io
import re
from itertools import pairwise

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from runs.tables.formats import FILES, latex_text
from tests.runs.made_up import hostile
from tests.runs.pages import Reader, squeezed


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
