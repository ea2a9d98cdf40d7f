"""Pages from templates: relative links, escaped text, and the filters used in the templates."""

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup, escape

from runs.report.addresses import To, link_from
from runs.report.provenance import date

TEMPLATES = Path(__file__).resolve().parent / "templates"
ASSETS = ("style.css", "results.css", "sort.js", "icon.svg")


def environment() -> jinja2.Environment:
    """The templates, with autoescaping; an undefined variable raises an error."""
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


class Renderer:
    """Renders the pages of one site.

    Args:
        site: information about the whole site, available to every page as `site`.
        methods: name -> path of the method's page, for links from the text.
        frame: template around the content of a page; None for that of the report.
    """

    def __init__(self, site: Any, methods: Mapping[str, str], frame: str | None = None) -> None:
        self.site = site
        self._methods = methods
        self._templates = environment()
        self._templates.filters |= {"date": date, "duration": duration, "marked": self._marked}
        own = self._templates.get_template("page.html")
        self._templates.globals |= {"nan": math.nan, "frame": self._templates.from_string(frame) if frame else own}

    def page(self, template: str, path: str, title: str, **content: Any) -> str:
        """Return a page of the site as HTML.

        Args:
            path: path of the page in the site; its links are relative to this path.
        """
        return self._render(template, path, title=title, **content)

    def part(self, template: str, path: str, **content: Any) -> Markup:
        """Return a part of a page as HTML, with links relative to the page at `path`."""
        return Markup(self._render(template, path, **content))

    def _render(self, template: str, path: str, **content: Any) -> str:
        found = self._templates.get_template(template)
        return found.render(site=self.site, path=path, to=link_from(path), **content)

    def _marked(self, text: str, to: To) -> Markup:
        """Return the text with each word in `backquotes` as code, and as a link if it is the name of a method."""

        def code(word: str) -> Markup:
            shown, place = Markup("<code>{}</code>").format(word), self._methods.get(word)
            return Markup('<a href="{}">{}</a>').format(to(place), shown) if place else shown

        pieces = re.split(r"`([^`\n]+)`", text)
        return Markup("").join(code(piece) if i % 2 else escape(piece) for i, piece in enumerate(pieces))


def duration(milliseconds: float) -> str:
    """A duration in a suitable unit: the largest unit that does not exceed it."""
    seconds = milliseconds / 1000
    for unit, size in (("h", 3600), ("min", 60)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.2g} s"
