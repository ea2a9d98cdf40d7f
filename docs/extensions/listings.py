"""What the command line says of itself: `listing KIND` is the table of `transduce list KIND` with links to the classes,
`command-line` the help of every verb."""

import contextlib
import io
import json
import pkgutil
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

TABLES = {
    "strategies": "fsl.strategies:STRATEGIES",
    "samplers": "fsl.samplers:SAMPLERS",
    "benchmarks": "fsl.benchmarks:BENCHMARKS",
    "datasets": "clustering.datasets:DATASETS",
    "methods": "clustering.methods:METHODS",
    "fair_methods": "fairness.methods:METHODS",
    "fair_datasets": "fairness.datasets:DATASETS",
    "objectives": "clustering.deep:OBJECTIVES",
}
"""Where the classes of a listing are named."""


def printed(*words: str) -> str:
    """What `transduce` prints for these words.

    Raises:
        ValueError: it failed.
    """
    from runs.cli import main

    answer = io.StringIO()
    with contextlib.redirect_stdout(answer):
        code = main(list(words))
    if code:
        raise ValueError(f"transduce {' '.join(words)} failed")
    return answer.getvalue()


def cell(column: str, value: Any, where: dict[str, str]) -> str:
    """A cell in the markup of the page."""
    if column == "name":
        return f"{{py:class}}`{value} <{where[value].replace(':', '.')}>`" if value in where else f"`{value}`"
    if isinstance(value, bool) or value is None:
        return "yes" if value else ""
    return str(value).replace("|", "\\|").replace("<", "\\<").replace("*", "\\*")


class Listing(SphinxDirective):
    """`{listing} KIND`."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """The table, parsed in the markup of the page."""
        kind = self.arguments[0]
        rows: list[dict[str, Any]] = json.loads(printed("list", kind, "--json"))[kind]
        where = pkgutil.resolve_name(TABLES[kind]).table if kind in TABLES else {}
        lines = ["| " + " | ".join(one.replace("_", " ") for one in rows[0]) + " |", "| --- " * len(rows[0]) + "|"]
        lines += ["| " + " | ".join(cell(one, value, where) for one, value in row.items()) + " |" for row in rows]
        return self.parse_text_to_nodes("\n".join(lines))


class CommandLine(SphinxDirective):
    """`{command-line}`: a section for every verb with its help."""

    def run(self) -> list[nodes.Node]:
        """The sections."""
        from typer.main import get_command

        from runs.cli import app

        sections = []
        for verb in get_command(app).list_commands(None):  # type: ignore[attr-defined]
            section = nodes.section("", nodes.title(text=verb), ids=[f"verb-{verb}"], names=[verb])
            section += nodes.literal_block(text=printed(verb, "--help"), language="none")
            sections.append(section)
        return sections


def setup(app: Sphinx) -> dict[str, bool]:
    """Add the directives."""
    app.add_directive("listing", Listing)
    app.add_directive("command-line", CommandLine)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
