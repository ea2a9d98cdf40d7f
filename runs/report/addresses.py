"""Paths of the pages in the site, and relative links between pages."""

import posixpath
import re
from collections.abc import Callable, Iterable

To = Callable[[str], str]


def slug(name: str) -> str:
    """A name for a file and an address: letters, digits, underscores, dots and single dashes."""
    return re.sub(r"[^A-Za-z0-9_.]+", "-", name).strip("-.")[:80] or "unnamed"


class Names(dict[str, str]):
    """Unique file names by key, created on first access; no two names differ in case alone.

    Args:
        taken: names that are not assigned to any key.
    """

    def __init__(self, taken: Iterable[str] = ()) -> None:
        super().__init__()
        self._taken = {name.lower() for name in taken}

    def __missing__(self, key: str) -> str:
        wanted, number = slug(key), 1
        name = wanted
        while name.lower() in self._taken:
            number += 1
            name = f"{wanted}-x{number}"
        self._taken.add(name.lower())
        self[key] = name
        return name


def numbered(path: str, number: int) -> str:
    """The path of page `number` of several; page 1 has the path `path`. No other page has a path of this form."""
    return path if number == 1 else path.removesuffix(".html") + f"--{number}.html"


def link_from(path: str) -> To:
    """A function that turns the path of a page in the site into a relative link from the page at `path`."""
    here = posixpath.dirname(path) or "."

    def to(target: str) -> str:
        page, mark, anchor = target.partition("#")
        return mark + anchor if page == path and anchor else posixpath.relpath(page, here) + mark + anchor

    return to
