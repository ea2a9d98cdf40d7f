"""Drawings from a stranger as SVG: shapes, text and pictures only. A browser that opens one runs no script and loads no
other file."""

import re
import xml.etree.ElementTree as ElementTree

SVG = "{http://www.w3.org/2000/svg}"
SHAPES = {
    *("svg", "g", "defs", "use", "clipPath", "mask", "pattern", "marker", "linearGradient", "radialGradient", "stop"),
    *("path", "rect", "circle", "ellipse", "line", "polyline", "polygon", "image", "text", "tspan", "style"),
    *("title", "desc", "metadata"),
}
DESCRIBING = (
    "{http://www.w3.org/1999/02/22-rdf-syntax-ns#}",
    "{http://purl.org/dc/",
    "{http://creativecommons.org/ns#}",
)
INSIDE = ("#", "data:image/png;base64,", "data:image/jpeg;base64,")  # beginnings of addresses within the file
FUNCTIONS = {"", "matrix", "translate", "scale", "rotate", "skewX", "skewY", "rgb", "rgba"}  # "": only a parenthesis
"""Functions of styles and attributes that load nothing; url(#...), a part of the same file, is another one."""
PROLOGUE = re.compile(rb"\s*(<\?xml\s[^?]*\?>)?\s*(<!DOCTYPE svg PUBLIC \"-//W3C//DTD SVG [^<>\[]*>)?")


def check_svg(content: bytes) -> None:
    """Accept a drawing, such as those of matplotlib.

    Raises:
        ValueError: it is not SVG, or has more than shapes, text and pictures of its own.
    """
    rest = PROLOGUE.sub(b"", content, count=1)  # it matches at the beginning, where it may be empty
    # No entities, no style sheets of the whole file, and no UTF-16, in which this search would miss them.
    if any(part in rest for part in (b"<!DOCTYPE", b"<?", b"\0")):
        raise ValueError("an SVG file has more than its drawing, or is not in UTF-8")
    try:
        root = ElementTree.fromstring(content)
    except (ElementTree.ParseError, ValueError, LookupError) as error:  # the latter for an unknown encoding
        raise ValueError(f"an SVG file is damaged ({error})") from error
    for element in root.iter():
        tag = element.tag
        if not (tag.startswith(DESCRIBING) or (tag.startswith(SVG) and tag.removeprefix(SVG) in SHAPES)):
            raise ValueError(f"an SVG file has the element {tag[-50:]!r}")
        if tag == f"{SVG}style" and ("@" in (style := "".join(element.itertext())) or _may_load(style)):
            raise ValueError("an SVG file has a style sheet that may load something")
        for name, value in element.attrib.items():
            local = name.rpartition("}")[2].lower()
            outer = local in ("href", "src", "base") and not value.startswith(INSIDE)
            if outer or local.startswith("on") or _may_load(value):
                raise ValueError(f"an SVG file has the attribute {local[:50]!r}, which may load or run something")


def _may_load(style: str) -> bool:
    """Whether a style or attribute has a function that may load a file, or a backslash, which can hide its name."""
    # The search begins at beginnings of words only: from every character, a long word would take minutes.
    called = re.findall(r"(?<![\w-])([\w-]*)\((#?)", style)
    return "\\" in style or any(name not in FUNCTIONS and (name, at) != ("url", "#") for name, at in called)
