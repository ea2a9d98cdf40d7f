"""Docstrings for napoleon.

Docstrings of this project are plain text with `code` in single backquotes, bullet lists, indented examples, and
sections in Google's or numpydoc's form. Everything else in them is text: `labels_`, `|x|` and `a * b` are no markup.
"""

import re
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util import logging

PACKAGES = ("clustering", "fairness", "fsl", "runs")
CODE = re.compile(r"(``[^`]+``|`[^`]+`)")
PAGE = re.compile(r"`?\bdocs/([\w/-]+)\.md\b`?")
ITEM = re.compile(r"(    \*{0,2}[\w.]+(?:, \*{0,2}[\w.]+)* ?:(?= |$))(.*)")
HEADING = re.compile(
    r"(Args|Arguments|Attributes|Parameters|Raises|Returns|Warns|Yields|Examples?|Notes?|References|See Also):$"
)
BULLET = re.compile(r"\s*([-*]|\d+\.) ")


def escaped(text: str) -> str:
    """Text in which nothing but `code` is markup, and pages of this site are links."""
    parts = CODE.split(PAGE.sub(r"`docs/\1.md`", text))
    parts[::2] = [re.sub(r"([\\*|`]|_(?!\w)|(?<!\w)_)", r"\\\1", part) for part in parts[::2]]
    for at in range(1, len(parts), 2):
        code, page = parts[at].strip("`"), PAGE.fullmatch(parts[at].strip("`"))
        markup = f":doc:`/{page[1]}`" if page else f"``{code}``"
        before = "\\ " if parts[at - 1][-1:].strip() and parts[at - 1][-1:] not in "([{'\"-/" else ""
        after = "\\ " if parts[at + 1][:1].isalnum() or parts[at + 1][:1] in ("(", "[", "_", "\\") else ""
        parts[at] = before + markup + after
    return "".join(parts)


def in_google_form(lines: list[str]) -> list[str]:
    """Underlined sections as Google's, since their items are `name : text`, not numpydoc's `name : type`."""
    result: list[str] = []
    inside = False
    for line, following in zip(lines, [*lines[1:], ""], strict=False):
        if re.fullmatch(r"-{3,}", following):
            inside = True
            result.append(f"{line}:")
        elif not re.fullmatch(r"-{3,}", line):
            result.append(f"    {line}" if inside and line else line)
    return result


def restructured(lines: list[str]) -> list[str]:
    """Lines for napoleon of the lines of a docstring without its indentation."""
    result: list[str] = []
    section = bullet = example = False
    for line in in_google_form(lines):
        before = result[-1] if result else ""
        indented = line.startswith(" ")
        if line.strip() and not indented and not BULLET.match(line):
            result += [""] if example and before.strip() else []
            section, bullet, example = bool(HEADING.match(line)), False, False
        if BULLET.match(line) and not example:
            if before.strip() and not bullet:
                result.append("")
            bullet, line = True, re.sub(r"^(\s*)\*", r"\1-", line)
        elif indented and not (section or bullet or example):
            example = True
            result += ["" if before.strip() else None, "::", ""]  # type: ignore[list-item]
        item = ITEM.fullmatch(line) if section and not bullet else None
        names = item[1].replace("_,", r"\_,").replace(" :", ":") if item else ""  # napoleon escapes the last of them
        text = line if example else names + escaped(item[2]) if item else escaped(line)
        result.append(text)
    return [line for line in result if line is not None]


def _remove_stale(app: Sphinx) -> None:
    """Remove the pages of modules that are gone, which autosummary keeps."""
    for page in (Path(app.srcdir) / "reference" / "api").glob("*.rst"):
        module = Path(app.srcdir).parent.joinpath(*page.stem.split("."))
        if not module.with_suffix(".py").exists() and not (module / "__init__.py").exists():
            page.unlink()


def _docstring(app: Sphinx, what: str, name: str, documented: Any, options: Any, lines: list[str]) -> None:
    lines[:] = restructured(lines)


def _skip(app: Sphinx, what: str, name: str, documented: Any, skip: bool, options: Any) -> bool | None:
    """Members of this project's own classes, and of them what a reader can call or what has a text."""
    function = getattr(documented, "fget", None) or getattr(documented, "__func__", documented)
    if what in ("class", "exception"):
        module = getattr(function, "__module__", None)
        own = isinstance(module, str) and module.partition(".")[0] in PACKAGES and callable(function)
        if not own or "." not in getattr(function, "__qualname__", ""):  # one of a module is documented there
            return True
    return None


def _missing(app: Sphinx, env: BuildEnvironment, node: nodes.Element, content: nodes.TextElement) -> None:
    """Types in docstrings may be of other packages; what a page names itself is of this project."""
    if node.get("refdomain") == "py" and not node["refdoc"].startswith("reference/api/"):
        logging.getLogger(__name__).warning("no such Python name: %s", node["reftarget"], location=node)


def setup(app: Sphinx) -> dict[str, bool]:
    """Hook into autodoc, before napoleon."""
    app.connect("builder-inited", _remove_stale, priority=400)
    app.connect("autodoc-process-docstring", _docstring, priority=400)
    app.connect("autodoc-skip-member", _skip)
    app.connect("missing-reference", _missing)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
