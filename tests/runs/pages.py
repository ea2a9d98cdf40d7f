"""Pages as a reader sees them."""

import html
import re


def text(page: str) -> str:
    """The words of a page, without tags, in one line."""
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", " ", page[page.index("<main") :].replace("<wbr>", ""))))
