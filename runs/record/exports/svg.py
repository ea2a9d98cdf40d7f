"""Drawings as SVG from a stranger: shapes, text and pictures only, so that a browser that shows one runs and loads
nothing."""

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


def check_svg(content: bytes) -> None:
    """Accept a drawing, such as those of matplotlib.

    Raises:
        ValueError: it is not SVG, or has more than shapes, text and pictures of its own.
    """
    if b"<!ENTITY" in content:
        raise ValueError("an SVG file defines entities")
    try:
        root = ElementTree.fromstring(content)
    except (ElementTree.ParseError, ValueError, LookupError) as error:  # the latter for an unknown encoding
        raise ValueError(f"an SVG file is damaged ({error})") from error
    for element in root.iter():
        tag = element.tag
        if not (tag.startswith(DESCRIBING) or (tag.startswith(SVG) and tag.removeprefix(SVG) in SHAPES)):
            raise ValueError(f"an SVG file has the element {tag[-50:]!r}")
        if tag == f"{SVG}style" and any(part in (element.text or "").lower() for part in ("@import", "url(", "\\")):
            raise ValueError("an SVG file has a style sheet that may load something")
        for name, value in element.attrib.items():
            local = name.rpartition("}")[2].lower()
            if local.startswith("on") or (local in ("href", "src") and not value.startswith(INSIDE)):
                raise ValueError(f"an SVG file has the attribute {local[:50]!r}, which may load or run something")
            if "url(" in value.replace("url(#", "").lower():
                raise ValueError(f"an SVG file has an address in the attribute {local[:50]!r}")
