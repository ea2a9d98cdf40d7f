"""Pages from templates: names of files, relative links, escaped text."""

import functools
import hashlib
import posixpath
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

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


def rendered(sections: Sequence[Section], introduction: Sequence[str | Markup] = ()) -> Markup:
    """Paragraphs and sections, as the content of a page or a part of it."""
    paragraphs = Markup("").join(Markup("<p>{}</p>\n").format(line) for line in introduction)
    module: Any = environment().get_template("sections.html").module
    return paragraphs + Markup(module.sections_of(sections))
