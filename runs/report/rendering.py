"""Pages from templates: names of files, relative links, escaped text."""

import functools
import hashlib
import posixpath
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import jinja2
from markupsafe import Markup

from runs.report.sections import Section

TEMPLATES = Path(__file__).resolve().parent / "templates"
ASSETS = ("style.css", "results.css", "icon.svg")


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


def relative(page: str, target: str) -> str:
    """The link from a page of the site to the path of another, which may have an anchor."""
    path, mark, anchor = target.partition("#")
    return (
        mark + anchor if path == page and anchor else posixpath.relpath(path, posixpath.dirname(page)) + mark + anchor
    )


def link(page: str, target: str, text: str) -> Markup:
    """A link of a page to another."""
    return Markup('<a href="{}">{}</a>').format(relative(page, target), text)


def verdict(status: str, text: str | None = None) -> Markup:
    """A verdict, or its count, in the verdict's colour."""
    words = status if text is None else text
    return Markup('<span class="verdict {}">{}</span>').format(status.replace(" ", "-"), words)


@dataclass(frozen=True)
class Renderer:
    """Renders the pages of one site.

    Attributes:
        run: the address of a run, by its id.
        frame: template around the content of a page; empty for that of the report.
        navigation: titles and paths of the pages that every page links.
        foot: the foot of the pages.
    """

    run: Callable[[str], str] = str
    frame: str = ""
    navigation: tuple[tuple[str, str], ...] = ()
    foot: str = ""

    def page(
        self,
        path: str,
        title: str,
        sections: Sequence[Section] = (),
        introduction: Sequence[str | Markup] = (),
        body: str = "",
    ) -> tuple[str, str]:
        """The path of a page, and the page as HTML."""
        templates = environment()
        frame = templates.from_string(self.frame) if self.frame else templates.get_template("page.html")
        given = {"title": title, "sections": sections, "introduction": introduction, "body": body}
        to = functools.partial(relative, path)
        return path, templates.get_template("content.html").render(frame=frame, site=self, path=path, to=to, **given)


def rendered(sections: Sequence[Section]) -> Markup:
    """Sections as a part of a page."""
    return Markup(environment().get_template("sections.html").module.sections_of(sections))  # type: ignore[attr-defined]
