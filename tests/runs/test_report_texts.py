"""Names of files, and links, of the pages of the report."""

import posixpath
from urllib.parse import urlsplit

from hypothesis import example, given
from hypothesis import strategies as st

from runs.report.rendering import relative, slug

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
