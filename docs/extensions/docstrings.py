"""Docstrings as reStructuredText.

Docstrings of this project are plain text with `code` in single backquotes, bullet lists, indented examples, and
sections in Google's form ("Args:") or numpydoc's ("Parameters" underlined). Everything else in them is text: `labels_`,
`|x|` and `a * b` are no markup, so they are escaped.
"""

import dataclasses
import inspect
import itertools
import re
import textwrap
import types
import typing
from collections.abc import Iterator
from typing import Any

from sphinx.application import Sphinx

PACKAGES = ("clustering", "fairness", "fsl", "runs")
FIELDS = {
    "Args": "Parameters",
    "Arguments": "Parameters",
    "Parameters": "Parameters",
    "Raises": "raises",
    "Warns": "Warns",
    "Attributes": "Attributes",
    "Returns": "returns",
    "Yields": "Yields",
}
LISTS = ("Parameters", "Attributes", "Warns")
OTHERS = ("Note", "Notes", "Example", "Examples", "References", "See Also")
GOOGLE = re.compile(rf"({'|'.join([*FIELDS, *OTHERS])}):$")
ITEM = re.compile(r"(\*{0,2}[\w.]+(?:, \*{0,2}[\w.]+)*) ?:(?: (.*)|$)")
RAISED = re.compile(r"([A-Z]\w+(?:, [A-Z]\w+)*):(?: (.*)|$)")
CODE = re.compile(r"(``[^`]+``|`[^`]+`)")
PAGE = re.compile(r"\bdocs/([\w/-]+)\.md\b")


def restructured(text: str, annotations: dict[str, str] | None = None) -> list[str]:
    """Lines of reStructuredText for a docstring without its indentation.

    Args:
        annotations: parameter -> its type in words, shown where the docstring describes the parameter.
    """
    result: list[str] = []
    for title, body in _sections(text.splitlines()):
        kind = FIELDS.get(title)
        if kind is None:
            result += ([f".. rubric:: {title}", ""] if title else []) + _blocks(body)
        elif kind in ("returns", "Yields"):
            result += _field(kind, _paragraph(body))
        else:
            described = list(_items(body, RAISED if kind == "raises" else ITEM))
            fields = [_described(kind, names, about, annotations or {}) for names, about in described]
            result += ["", f":{kind}:", *itertools.chain(*fields), ""] if kind in LISTS else itertools.chain(*fields)
    return result


def _described(kind: str, names: str, about: list[str], annotations: dict[str, str]) -> list[str]:
    """One parameter, attribute or error."""
    said = _paragraph(about)
    typed = " / ".join(dict.fromkeys(annotations[one] for one in names.split(", ") if one in annotations))
    if kind in LISTS:
        return [f"    - **{escaped(names)}**{f' ({typed})' if typed else ''} -- {said}"]
    return _field(f"raises {names}", said)


def _field(name: str, text: str) -> list[str]:
    return ["", f":{name}: {text}", ""]


def _sections(lines: list[str]) -> Iterator[tuple[str, list[str]]]:
    """Title ("" of what comes first) and lines of each section, a Google section without its indentation."""
    title, body, google = "", list[str](), False
    position = 0
    while position < len(lines):
        line = lines[position]
        following = lines[position + 1] if position + 1 < len(lines) else ""
        numpy = bool(re.fullmatch(r"-{3,}", following)) and line.strip() in (*FIELDS, *OTHERS)
        starts_google = bool(GOOGLE.fullmatch(line)) and following.startswith(" ")
        ends_google = google and bool(line.strip()) and not line.startswith(" ")
        if numpy or starts_google or ends_google:
            yield title, textwrap.dedent("\n".join(body)).splitlines() if google else body
            title, google = (
                ("", False) if ends_google and not (numpy or starts_google) else (line.strip(" :"), not numpy)
            )
            body = [] if title else [line]
            position += 2 if numpy else 1
            continue
        body.append(line)
        position += 1
    yield title, textwrap.dedent("\n".join(body)).splitlines() if google else body


def _items(lines: list[str], item: re.Pattern[str]) -> Iterator[tuple[str, list[str]]]:
    """Names and text of each item of a section."""
    names, about = "", list[str]()
    for line in lines:
        match = item.fullmatch(line)
        if match:
            if names:
                yield names, about
            names, about = match[1], [match[2] or ""]
        else:
            about.append(line)
    if names:
        yield names, about


def _paragraph(lines: list[str]) -> str:
    """All of it as one paragraph, for the body of a field."""
    return escaped(" ".join(line.strip() for line in lines if line.strip()))


def _blocks(lines: list[str]) -> list[str]:
    """Paragraphs, bullet lists and indented examples."""
    result: list[str] = []
    paragraph: list[str] = []
    example: list[str] = []

    def close() -> None:
        if paragraph:
            result.extend([escaped(" ".join(paragraph)), ""])
        if example:
            shown = textwrap.dedent("\n".join(example)).strip("\n").splitlines()
            result.extend(["::", "", *(f"    {line}" for line in shown), ""])
        paragraph.clear()
        example.clear()

    bullet = False
    for line in lines:
        stripped = line.strip()
        if not stripped:
            if example:
                example.append("")
            else:
                close()
                bullet = False
        elif re.match(r"(- |\* )", line):
            close()
            bullet = True
            paragraph.append(stripped[2:])
            paragraph[0] = "\0" + paragraph[0]
        elif line.startswith(" ") and not bullet:
            if paragraph:
                close()
            example.append(line)
        else:
            if example:
                close()
            paragraph.append(stripped)
    close()
    return [line.replace("\0", "- ", 1) if line.startswith("\0") else line for line in result]


def escaped(text: str) -> str:
    """Text in which nothing but `code` is markup."""
    parts = []
    for part in CODE.split(text):
        code, page = CODE.fullmatch(part), PAGE.fullmatch(part.strip("`"))
        if page:
            parts.append(f":doc:`/{page[1]}`")
        elif code:
            parts.append(_literal(part.strip("`")))
        else:
            texts = [re.sub(r"([\\*|`]|_(?!\w)|(?<!\w)_)", r"\\\1", one) for one in PAGE.split(part)]
            texts[1::2] = [f":doc:`/{one}`" for one in PAGE.findall(part)]
            parts += texts
    return _separated(parts)


def _literal(code: str) -> str:
    code = code.strip()
    return f"``{code}``" if not code.endswith("\\") else f"``{code} ``"


def _separated(parts: list[str]) -> str:
    """Joined, with an empty escape where code touches a letter, as reStructuredText asks for."""
    result = ""
    for part in parts:
        if not part:
            continue
        markup = part.startswith(("``", ":py:", ":doc:"))
        touches = result.endswith("`") and (part[0].isalnum() or markup or part[0] in "_(\\[{<")
        touches |= markup and bool(result) and (result[-1].isalnum() or result[-1] in "_)]}>=+[")
        result += ("\\ " if touches else "") + part
    return result


def in_words(annotation: Any) -> str:
    """A type for readers: bounds of `Annotated` in words, choices as their values, own classes by full name."""
    if annotation is None or annotation is type(None):
        return "None"
    if isinstance(annotation, str):
        return annotation
    if isinstance(annotation, typing.TypeVar):
        return "Any"
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        bounds = " and ".join(str(one) for one in arguments[1:] if type(one).__str__ is not object.__str__)
        return in_words(arguments[0]) + (f" {bounds}" if bounds else "")
    if origin is typing.Literal:
        return " | ".join(map(repr, arguments))
    if origin in (typing.Union, types.UnionType):
        choices = [in_words(one) for one in arguments]
        if len(choices) > 4 and any("Array" in str(one) for one in arguments):
            return "array-like" + (" | None" if "None" in choices else "")
        return " | ".join(dict.fromkeys(choices))
    if arguments:
        if origin.__name__ == "ndarray":
            return "array"
        inner = ", ".join("..." if one is ... else in_words(one) for one in arguments if not isinstance(one, list))
        return f"{origin.__name__}[{inner}]" if inner else origin.__name__
    name = getattr(annotation, "__qualname__", str(annotation).rpartition(".")[2])
    module = getattr(annotation, "__module__", "")
    return f"{module}.{name}" if module.partition(".")[0] in PACKAGES else name


def _linked(said: str) -> str:
    """A type in words with links to this project's classes. Emphasis keeps Sphinx from guessing at the rest."""
    parts = re.split(rf"((?:{'|'.join(PACKAGES)})\.[\w.]+)", said)
    linked = [f":py:obj:`~{part}`" if number % 2 else escaped(part) for number, part in enumerate(parts)]
    return _separated([part for part in linked if part]) if len(parts) > 1 else f"*{escaped(said)}*"


def _hints(function: Any) -> dict[str, Any]:
    """Annotations, without those that only type checkers can look up."""
    try:
        return typing.get_type_hints(function, include_extras=True)
    except (NameError, TypeError, AttributeError):
        annotations = getattr(function, "__annotations__", {})
        return {name: hint for name, hint in annotations.items() if not re.search("ForwardRef|'", repr(hint))}


def _annotations(documented: Any) -> dict[str, str]:
    hints = _hints(documented.__init__ if inspect.isclass(documented) else documented)
    if dataclasses.is_dataclass(documented):
        hints = {**_hints(documented), **hints}
    return {name: _linked(in_words(hint)) for name, hint in hints.items() if name != "return"}


def _docstring(app: Sphinx, what: str, name: str, documented: Any, options: Any, lines: list[str]) -> None:
    annotations = _annotations(documented) if what in ("class", "function", "method") else {}
    lines[:] = restructured("\n".join(lines), annotations)


def _signature(
    app: Sphinx, what: str, name: str, documented: Any, options: Any, signature: str, returns: str
) -> tuple[str, str] | None:
    """Types of parameters stand beside their description; the signature has names and defaults."""
    if what not in ("class", "function", "method", "exception"):
        return None
    try:
        found = inspect.signature(documented)
    except (ValueError, TypeError):
        return None
    parameters = [one.replace(annotation=one.empty) for one in found.parameters.values()]
    if what == "method" and parameters and parameters[0].name in ("self", "cls"):
        parameters = parameters[1:]
    bare = found.replace(parameters=parameters, return_annotation=inspect.Signature.empty)
    returned = "" if what in ("class", "exception") else _hints(documented).get("return", "")
    return _plain(str(bare)), in_words(returned)


def _plain(signature: str) -> str:
    """Without addresses of objects and with names instead of `<function f at 0x...>`, so that it parses."""
    signature = re.sub(r"<(?:function|class) '?([\w.]+)'?[^>]*>", lambda match: match[1].rpartition(".")[2], signature)
    signature = re.sub(r"<factory>", "...", signature)
    return re.sub(r"<[^<>]*>", "...", signature)


def _skip(app: Sphinx, what: str, name: str, documented: Any, skip: bool, options: Any) -> bool | None:
    """Members of this project's own classes, and of them what a reader can call or what has a text."""
    function = getattr(documented, "fget", None) or getattr(documented, "__func__", documented)
    if what in ("class", "exception"):
        module = getattr(function, "__module__", None)
        own = isinstance(module, str) and module.partition(".")[0] in PACKAGES and callable(function)
        if not own or "." not in getattr(function, "__qualname__", ""):  # one of a module is documented there
            return True
    return None


def setup(app: Sphinx) -> dict[str, bool]:
    """Hook into autodoc."""
    app.connect("autodoc-process-docstring", _docstring)
    app.connect("autodoc-process-signature", _signature)
    app.connect("autodoc-skip-member", _skip)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
