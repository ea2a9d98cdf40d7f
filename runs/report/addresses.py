"""Where pages stand in the site, and how one leads to another."""

import posixpath
import re
from collections.abc import Callable, Iterable

To = Callable[[str], str]


def slug(name: str) -> str:
    """A name for a file and an address: letters, digits, underscores, dots and single dashes."""
    return re.sub(r"[^A-Za-z0-9_.]+", "-", name).strip("-.")[:80] or "unnamed"


class Names(dict[str, str]):
    """Names for files by what they are of: made when they are asked for, no two alike, whatever their case.

    Args:
        taken: names that are given to none.
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
    """The path of that page of several, the first of which is at `path` itself. No name of a page looks like it."""
    return path if number == 1 else path.removesuffix(".html") + f"--{number}.html"


def link_from(path: str) -> To:
    """What turns the place of another page into the address that leads there from `path`."""
    here = posixpath.dirname(path) or "."

    def to(target: str) -> str:
        page, mark, anchor = target.partition("#")
        return mark + anchor if page == path and anchor else posixpath.relpath(page, here) + mark + anchor

    return to
