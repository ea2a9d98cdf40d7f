"""Drawings that are made while the site is built.

`rooms` shows the packages, their folders and the imports between them, as they are in the code. `flow` shows a chain of
things with what is done in between.
"""

import ast
import html
import importlib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from extensions.docstrings import PACKAGES

LAYERS = (("runs",), ("fsl", "fairness"), ("clustering",))
WIDTH, PER_ROW = 960, 6
FOLDER, GAP, HEADER = 46, 10, 34
PER_CHAIN = 4
STYLE = (
    "svg.rooms {max-width: 100%; height: auto; font-family: var(--pst-font-family-base, sans-serif)}"
    "svg.rooms text {fill: var(--pst-color-text-base, #222)} svg.rooms .small {font-size: 11px}"
    "svg.rooms .room {fill: var(--pst-color-surface, #f3f4f6); stroke: var(--pst-color-border, #999)}"
    "svg.rooms .folder {fill: var(--pst-color-background, #fff); stroke: var(--pst-color-border, #999)}"
    "svg.rooms .arrow {stroke: var(--pst-color-primary, #06c); stroke-width: 2; fill: none}"
    "svg.rooms .head {fill: var(--pst-color-primary, #06c)}"
)


@dataclass(frozen=True)
class Folder:
    """A folder of modules: its dotted name, how many modules and lines, and what its docstring says first."""

    name: str
    modules: int
    lines: int
    about: str


def folders(project: Path) -> dict[str, list[Folder]]:
    """Package -> its folders, the top one first. Files of data have none."""
    result: dict[str, list[Folder]] = {}
    for package in PACKAGES:
        result[package] = []
        for init in sorted((project / package).rglob("__init__.py")):
            files = list(init.parent.glob("*.py"))
            about = (ast.get_docstring(ast.parse(init.read_text())) or "").partition("\n\n")[0]
            lines = sum(len(path.read_text().splitlines()) for path in files)
            name = ".".join(init.parent.relative_to(project).parts)
            result[package].append(Folder(name, len(files) - 1, lines, " ".join(about.split())))
    return result


def imports(project: Path) -> Counter[tuple[str, str]]:
    """(importing package, imported package) -> modules of the first that import from the second."""
    result: Counter[tuple[str, str]] = Counter()
    for package in PACKAGES:
        for path in (project / package).rglob("*.py"):
            names = set()
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Import):
                    names |= {alias.name.partition(".")[0] for alias in node.names}
                elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                    names.add(node.module.partition(".")[0])
            result.update((package, name) for name in names & set(PACKAGES) - {package})
    return result


def drawing(project: Path) -> str:
    """The drawing as SVG: the packages in layers, every arrow from what imports to what is imported."""
    inside, between = folders(project), imports(project)
    parts, places, top = [], {}, 0
    for layer in LAYERS:
        width = (WIDTH - GAP * (len(layer) - 1) * 4) // len(layer)
        per_row = max(1, PER_ROW // len(layer))
        height = max(_height(len(inside[room]) - 1, per_row) for room in layer)
        for position, room in enumerate(layer):
            left = position * (width + 4 * GAP)
            places[room] = (left, top, width, height)
            parts += _room(room, inside[room], left, top, width, height, per_row)
        top += height + 60
    for (importing, imported), count in sorted(between.items()):
        parts += _arrow(places, importing, imported, count)
    head = '<marker id="head" orient="auto" markerWidth="8" markerHeight="8" refX="7" refY="4">'
    head = f'<defs>{head}<path class="head" d="M0 0 L8 4 L0 8 z"/></marker></defs>'
    label = "packages in three layers with their folders; arrows show which package imports from which"
    size = f'viewBox="0 0 {WIDTH} {top - 60}" width="{WIDTH}"'
    body = "".join(parts)
    return f'<svg class="rooms" role="img" aria-label="{label}" {size}><style>{STYLE}</style>{head}{body}</svg>'


def _height(count: int, per_row: int) -> int:
    return HEADER + max(1, -(-count // per_row)) * (FOLDER + GAP) + GAP


def _room(name: str, inside: list[Folder], left: int, top: int, width: int, height: int, per_row: int) -> list[str]:
    lines = sum(folder.lines for folder in inside)
    modules = sum(folder.modules for folder in inside)
    said = f"{modules} modules, {lines:,} lines"
    parts = [
        f'<rect class="room" x="{left + 1}" y="{top + 1}" width="{width - 2}" height="{height - 2}" rx="6"/>',
        f'<text x="{left + 12}" y="{top + 23}" font-weight="bold">{name}</text>',
        f'<text class="small" x="{left + width - 12}" y="{top + 23}" text-anchor="end">{said}</text>',
    ]
    across = (width - GAP) // per_row
    for position, folder in enumerate(inside[1:]):
        x = left + GAP + position % per_row * across
        y = top + HEADER + position // per_row * (FOLDER + GAP)
        short = folder.name.removeprefix(f"{name}.").replace(".", "/")
        parts += [
            f"<g><title>{html.escape(folder.about)}</title>",
            f'<rect class="folder" x="{x}" y="{y}" width="{across - GAP}" height="{FOLDER}" rx="4"/>',
            f'<text class="small" x="{x + 8}" y="{y + 19}" font-weight="bold">{short}</text>',
            f'<text class="small" x="{x + 8}" y="{y + 35}">{folder.modules} modules</text></g>',
        ]
    return parts


def _arrow(places: dict[str, tuple[int, int, int, int]], importing: str, imported: str, count: int) -> list[str]:
    """From the lower edge of one package to the upper edge of another; past a layer between them in its gap."""
    left, top, width, height = places[importing]
    other_left, other_top, other_width, _ = places[imported]
    x = other_left + other_width // 2 if width > other_width else left + width // 2
    if other_width == width:  # from the top layer to the bottom one, between the two packages in the middle
        x = left + width // 2
    start, end = top + height, other_top - 2
    return [
        f'<path class="arrow" d="M{x} {start} L{x} {end}" marker-end="url(#head)"/>',
        f'<text class="small" x="{x + 8}" y="{end - 22}">{count} modules import</text>',
    ]


class Rooms(SphinxDirective):
    """`{rooms}`: the drawing."""

    def run(self) -> list[nodes.Node]:
        """The SVG, in the page itself so that it follows the page's colours."""
        return [nodes.raw("", f"<p>{drawing(Path(self.env.srcdir).parent)}</p>", format="html")]


def chain(steps: list[tuple[str, str, str]]) -> str:
    """A chain as SVG, row by row: boxes of a name and a place, and between them what is done.

    Args:
        steps: what is done to get there (empty for the first), name, place.
    """
    across, high, gap = WIDTH // PER_CHAIN, 56, 44
    rows = -(-len(steps) // PER_CHAIN)
    parts = []
    for position, (done, name, place) in enumerate(steps):
        row, column = divmod(position, PER_CHAIN)
        x, y = column * across, row * (high + gap) + 18
        width = across - 66
        parts += [
            f'<rect class="room" x="{x + 1}" y="{y}" width="{width}" height="{high}" rx="6"/>',
            f'<text x="{x + 10}" y="{y + 24}" font-weight="bold">{html.escape(name)}</text>',
            f'<text class="small" x="{x + 10}" y="{y + 43}">{html.escape(place)}</text>',
        ]
        if column:
            parts += [
                f'<path class="arrow" d="M{x - 62} {y + high // 2} L{x - 3} {y + high // 2}" marker-end="url(#end)"/>',
                f'<text class="small" x="{x - 33}" y="{y + high // 2 - 10}" text-anchor="middle">{done}</text>',
            ]
        elif row:
            end = (PER_CHAIN - 1) * across + width // 2
            path = f"M{end} {y - gap + 2} L{end} {y - gap // 2} L{width // 2} {y - gap // 2} L{width // 2} {y - 3}"
            parts += [
                f'<path class="arrow" d="{path}" marker-end="url(#end)"/>',
                f'<text class="small" x="{WIDTH // 2}" y="{y - gap // 2 - 5}" text-anchor="middle">{done}</text>',
            ]
    head = '<marker id="end" orient="auto" markerWidth="8" markerHeight="8" refX="7" refY="4">'
    head = f'<defs>{head}<path class="head" d="M0 0 L8 4 L0 8 z"/></marker></defs>'
    label = html.escape(" to ".join(name for _, name, _ in steps))
    size = f'viewBox="0 0 {WIDTH} {rows * (high + gap)}" width="{WIDTH}"'
    body = "".join(parts)
    return f'<svg class="rooms" role="img" aria-label="{label}" {size}><style>{STYLE}</style>{head}{body}</svg>'


class Flow(SphinxDirective):
    """`{flow}`: lines `what is done | name | place`, where a place that is a dotted name must exist."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        """The SVG."""
        steps = []
        for line in self.content:
            done, name, place = (part.strip() for part in line.split("|"))
            if place.partition(".")[0] in PACKAGES:
                importlib.import_module(place)
            steps.append((done, name, place))
        return [nodes.raw("", f"<p>{chain(steps)}</p>", format="html")]


def setup(app: Sphinx) -> dict[str, bool]:
    """Add the directives."""
    app.add_directive("rooms", Rooms)
    app.add_directive("flow", Flow)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
