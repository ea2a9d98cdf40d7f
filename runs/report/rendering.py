"""Pages from templates: names of files, relative links, escaped text."""

import functools
import hashlib
import posixpath
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import jinja2
from markupsafe import Markup

from runs.report.sections import Section

TEMPLATES = Path(__file__).resolve().parent / "templates"
ASSETS = ("style.css", "results.css", "sort.js", "icon.svg")


@functools.cache
def environment() -> jinja2.Environment:
    """The templates, with autoescaping; an undefined variable raises an error."""
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def slug(name: str) -> str:
    """A name for a file and an anchor. Names with other characters than lower-case letters, digits and `_ . - / @` end
    with a hash, so that similar ones differ on any disk."""
    clean = re.sub(r"[^a-z0-9_.]+", "-", name.lower())[:60].strip("-.")
    if clean and clean == re.sub("[/@]", "-", name):
        return clean
    return f"{clean}-{hashlib.sha256(name.encode('utf-8', 'backslashreplace')).hexdigest()[:8]}".lstrip("-")


def link_from(path: str) -> Callable[[str], str]:
    """A function that turns the path of a page in the site into a relative link from the page at `path`."""
    here = posixpath.dirname(path) or "."

    def to(target: str) -> str:
        page, mark, anchor = target.partition("#")
        return mark + anchor if page == path and anchor else posixpath.relpath(page, here) + mark + anchor

    return to


@dataclass(frozen=True)
class Site:
    """Information about the whole site, available to every page: the variable `site` of the templates.

    Attributes:
        run: gives the path of the entry of a run, by its id; None if it is not in the record.
        navigation: titles and paths of the pages that every page links.
        made, code, record: time, version of the code, and place of the record, for the foot of the page.
    """

    run: Callable[[str], str | None]
    navigation: tuple[tuple[str, str], ...] = ()
    made: str = ""
    code: str = ""
    record: str = ""


class Renderer:
    """Renders the pages of one site.

    Args:
        site: information about the whole site.
        frame: template around the content of a page; None for that of the report.
    """

    def __init__(self, site: Site, frame: str | None = None) -> None:
        self.site = site
        self._frame = environment().from_string(frame) if frame else environment().get_template("page.html")

    def page(
        self,
        path: str,
        title: str,
        sections: Sequence[Section] = (),
        introduction: Sequence[str | Markup] = (),
        body: str = "",
    ) -> tuple[str, str]:
        """Return the path of a page, and the page as HTML."""
        given = {"title": title, "sections": sections, "introduction": introduction, "body": body}
        content = environment().get_template("content.html")
        return path, content.render(frame=self._frame, site=self.site, path=path, to=link_from(path), **given)

    def run_link(self, path: str, run_id: str, text: str) -> str | Markup:
        """Return a link from the page at `path` to the entry of a run; the text alone if the record has none."""
        place = self.site.run(run_id)
        return link(path, place, text) if place else text


def link(path: str, target: str, text: str) -> Markup:
    """Return a link from the page at `path` to another."""
    return Markup('<a href="{}">{}</a>').format(link_from(path)(target), text)


def sections(found: Sequence[Section]) -> Markup:
    """Return sections as a part of a page."""
    return Markup(environment().get_template("sections.html").module.sections_of(found))  # type: ignore[attr-defined]


def verdict(status: str, text: str | None = None) -> Markup:
    """Return a verdict, or its count, in the verdict's colour."""
    return Markup('<span class="verdict {}">{}</span>').format(
        status.replace(" ", "-"), status if text is None else text
    )


def date(milliseconds: int | None) -> str:
    """The time in UTC, to the minute; empty if it is missing or out of the range of the calendar."""
    if milliseconds is None:
        return ""
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%d %H:%M")
    except (ValueError, OverflowError, OSError):
        return ""
