"""Drawings from a stranger: those of matplotlib are accepted, and those that could run or load something are not."""

import io

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.figure import Figure

from runs.record.exports.svg import check_svg

DRAWING = '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink">{}</svg>'


def test_drawings_of_matplotlib_are_accepted() -> None:
    figure = Figure()
    axes = figure.subplots(1, 2)
    axes[0].imshow(np.eye(3))
    axes[0].set_title(r"$\lambda$ and <b>")
    axes[1].plot([1, 2], [3, 4], marker="o", label="a line")
    axes[1].fill_between([1, 2], [1, 1], [2, 3], hatch="/", alpha=0.5)
    axes[1].legend()
    file = io.BytesIO()
    for fonts in ("none", "path"):
        with plt.rc_context({"svg.fonttype": fonts}):
            figure.savefig(file, format="svg")
        check_svg(file.getvalue())
        file.seek(0)
        file.truncate()


@pytest.mark.parametrize(
    "content",
    [
        "<script>alert(1)</script>",
        "<s:script xmlns:s='http://www.w3.org/2000/svg'>alert(1)</s:script>",
        "<script xmlns='http://www.w3.org/1999/xhtml'>alert(1)</script>",
        "<foreignObject/>",
        "<a xlink:href='javascript:alert(1)'/>",
        "<use xlink:href='https://example.org/a.svg#b'/>",
        "<image href='&#106;avascript:alert(1)'/>",
        "<image href=' javascript:alert(1)'/>",
        "<image href='data:image/svg+xml;base64,AAAA'/>",
        "<g onload='alert(1)'/>",
        "<g ONCLICK='alert(1)'/>",
        "<set attributeName='href' to='javascript:alert(1)'/>",
        "<animate attributeName='href' values='javascript:alert(1)'/>",
        "<rect fill='URL(https://example.org/a)'/>",
        "<rect style='fill: url(#a); stroke: url(https://example.org/a)'/>",
        "<style>@import 'https://example.org/a.css';</style>",
        "<style>g { fill: url(https://example.org/a) }</style>",
        "<style>@\\69mport 'https://example.org/a.css';</style>",
        "<style><g/>@import 'https://example.org/a.css';</style>",
        "<style>svg { background: image-set('https://example.org/a.png' 1x) }</style>",
        "<rect style='fill: u\\72l(https://example.org/a)'/>",
        "<rect style='cursor: -webkit-image-set(\"https://example.org/a.png\" 1x)'/>",
        "<g xml:base='https://example.org/'><use href='#a'/></g>",
        "<?xml-stylesheet href='https://example.org/a.css'?>",
        "<g>",
    ],
)
def test_other_drawings_are_refused(content: str) -> None:
    with pytest.raises(ValueError, match="an SVG file"):
        check_svg(DRAWING.format(content).encode())


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff\xfe\x00",
        b"<html/>",
        b'<?xml version="1.0" encoding="nonsense"?><svg xmlns="http://www.w3.org/2000/svg"/>',
        b'<!DOCTYPE svg [<!ENTITY a "b">]><svg xmlns="http://www.w3.org/2000/svg">&a;</svg>',
        b'<?xml-stylesheet href="https://example.org/a.css"?>' + DRAWING.encode(),
        b'<!DOCTYPE svg [<!ATTLIST svg onload CDATA "alert(1)">]>' + DRAWING.encode(),
        b'<!DOCTYPE svg PUBLIC "-//W3C//DTD SVG 1.1//EN" "" [<!ENTITY a "b">]>' + DRAWING.encode(),
        ('<!DOCTYPE svg [<!ENTITY a "b">]>' + DRAWING.format("<desc>&a;</desc>")).encode("utf-16"),
    ],
)
def test_what_is_no_drawing_is_refused(content: bytes) -> None:
    with pytest.raises(ValueError, match="an SVG file"):
        check_svg(content)
