"""What the command line says of itself: `listing KIND` is the table of `transduce list KIND` with links to the classes,
`command-line` the help of every verb."""

import contextlib
import io
import json
from typing import Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

YES = {True: "yes", False: "", None: ""}


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


def listed(kind: str) -> list[dict[str, Any]]:
    """Rows of `transduce list KIND --json`."""
    rows: list[dict[str, Any]] = json.loads(printed("list", kind, "--json"))[kind]
    return rows


def classes(kind: str) -> dict[str, str]:
    """Name -> full name of the class, of those that come with the project."""
    import clustering.methods
    import fairness.methods
    from clustering.datasets import DATASETS
    from clustering.deep import OBJECTIVES
    from fairness.datasets import DATASETS as FAIR_DATASETS
    from fsl.benchmarks import BENCHMARKS
    from fsl.samplers import SAMPLERS
    from fsl.strategies import STRATEGIES

    plugins = {
        "strategies": STRATEGIES,
        "samplers": SAMPLERS,
        "benchmarks": BENCHMARKS,
        "datasets": DATASETS,
        "methods": clustering.methods.METHODS,
        "fair_methods": fairness.methods.METHODS,
        "fair_datasets": FAIR_DATASETS,
        "objectives": OBJECTIVES,
    }
    return {name: where.replace(":", ".") for name, where in plugins[kind].table.items()} if kind in plugins else {}


class Listing(SphinxDirective):
    """`{listing} KIND`, with `:columns: name, about` for some of the columns only."""

    required_arguments = 1
    option_spec: ClassVar[dict[str, Any]] = {"columns": directives.unchanged}

    def run(self) -> list[nodes.Node]:
        """The table, parsed in the markup of the page."""
        kind = self.arguments[0]
        rows = listed(kind)
        columns = [one.strip() for one in self.options.get("columns", ",".join(rows[0])).split(",")]
        where = classes(kind)
        lines = ["| " + " | ".join(one.replace("_", " ") for one in columns) + " |", "| --- " * len(columns) + "|"]
        for row in rows:
            cells = [self._cell(one, row[one], where) for one in columns]
            lines.append("| " + " | ".join(cells) + " |")
        return self.parse_text_to_nodes("\n".join(lines))

    @staticmethod
    def _cell(column: str, value: Any, where: dict[str, str]) -> str:
        if column == "name":
            return f"{{py:class}}`{value} <{where[value]}>`" if value in where else f"`{value}`"
        if isinstance(value, bool) or value is None:
            return YES[value]
        return str(value).replace("|", "\\|").replace("<", "\\<").replace("*", "\\*")


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
