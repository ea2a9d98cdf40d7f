"""What pages of the report are made of: explanations of strategies, links, names of files, dates."""

import dataclasses
import posixpath
from urllib.parse import urlsplit

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fsl.strategies import STRATEGIES
from runs.report.addresses import Names, link_from, numbered, slug
from runs.report.explanation import explain
from runs.report.provenance import date


@pytest.mark.parametrize("name", STRATEGIES.table)
def test_what_a_strategy_says_of_itself_is_found(name):
    kind = STRATEGIES.load(name)
    found = explain(kind)
    assert found.source
    assert found.summary
    assert found.fields.keys() == {field.name for field in dataclasses.fields(kind)}
    said = " ".join(block.text for block in found.blocks)
    whole = " ".join(kind.__doc__.partition("Attributes:")[0].split())
    assert " ".join(said.split()) == whole


def test_paragraphs_flow_and_formulas_stand():
    class Example:
        """A first paragraph that is long enough to be broken, since its lines go on until there is no more room, and
        so it flows.

            a = b,
            c = d

        1. a step
        2. another

        Attributes:
            one: what it is, in words that go on
                on a second line.
            two: another.
        """

    found = explain(Example)
    assert [block.formula for block in found.blocks] == [False, True, True]
    assert found.blocks[0].text.endswith("no more room, and so it flows.")
    assert found.blocks[1].text == "a = b,\nc = d"
    assert found.fields == {"one": "what it is, in words that go on on a second line.", "two": "another."}


paths = st.lists(st.text("ab.-", min_size=1).map(slug), min_size=1, max_size=3).map(
    lambda parts: "/".join(parts) + ".html"
)


@given(paths, paths, st.sampled_from(["", "#here"]))
def test_links_lead_where_they_say(page, target, anchor):
    link = link_from(page)(target + anchor)
    assert not posixpath.isabs(link)
    place = posixpath.normpath(posixpath.join(posixpath.dirname(page), urlsplit(link).path)) if link[0] != "#" else page
    assert place == target
    assert link.endswith(anchor)


@given(st.lists(st.text(max_size=20) | st.text("aA/-", max_size=3), max_size=20))
@example(["evaluate/Tiny", "evaluate/tiny", "Index", "a-", "a"])
def test_names_of_files_are_apart_on_any_disk(texts):
    names = Names(taken=("index",))
    found = {numbered(names[text], 1).lower() for text in texts}
    assert len(found) == len(set(texts))
    assert "index" not in found
    assert all(set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789_.-") for name in found)
    assert not [name for name in found if "--" in name], "which numbered pages have"


def test_a_date_that_no_calendar_has_is_left_out():
    assert [date(time) for time in (None, 0, 10**17, -(10**17))] == ["", "1970-01-01 00:00", "", ""]
