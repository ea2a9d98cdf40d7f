"""Pages as a reader sees them."""

import html
import re
from html.parser import HTMLParser


def text(page: str) -> str:
    """The words of a page, without tags, in one line."""
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", " ", page[page.index("<main") :].replace("<wbr>", ""))))


def squeezed(text: str) -> str:
    """Without white space."""
    return "".join(text.split())


def nothing_is_written(verb, store, settings, words):
    """A verb says these words about a mistake, without a traceback, and leaves the results as they are."""
    before = list(store.root.rglob("*"))
    code, seen = verb(*settings)
    assert code == 2
    for word in words:
        assert word in seen.err
    assert "Traceback" not in seen.err
    assert list(store.root.rglob("*")) == before


class Reader(HTMLParser):
    """The text of a page; every tag is closed, every id there once."""

    def __init__(self, page):
        super().__init__()
        self.page, self.texts, self.open, self.tags, self.ids, self.links = page, [], [], [], [], []
        self.feed(page)
        self.close()
        assert self.open == []
        assert len(self.ids) == len(set(self.ids))

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self.tags.append((tag, found))
        self.ids += [found["id"]] if "id" in found else []
        self.links += [found["href"]] if "href" in found else []
        if tag not in ("meta", "br", "link", "img", "input", "hr"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)

    @property
    def text(self):
        return "".join(self.texts)
