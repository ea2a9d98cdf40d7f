"""Pages of the API reference: one for each package with a table of its modules, one for each module.

They are written into docs/reference/api before the build, and only those whose text has changed. Links to Python names
on the other pages must lead somewhere: one that does not is a warning.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util import logging

from extensions.docstrings import PACKAGES, escaped

TITLES = {
    "clustering": "the objective, its optimiser, graphs and clusterers",
    "fairness": "fair clustering",
    "fsl": "few-shot learning",
    "runs": "experiments, records, tables and the command line",
}


def public(path: Path) -> tuple[list[str], list[str], str]:
    """Public classes and functions that a module defines, and the first sentence of its docstring."""
    tree = ast.parse(path.read_text())
    shown = [node for node in tree.body if not getattr(node, "name", "_").startswith("_")]
    classes = [node.name for node in shown if isinstance(node, ast.ClassDef)]
    functions = [node.name for node in shown if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    about = " ".join((ast.get_docstring(tree) or "").partition("\n\n")[0].split())
    return classes, list(dict.fromkeys(functions)), about  # overloads are one function


def pages(project: Path) -> Iterator[tuple[str, str]]:
    """Module name and reStructuredText of every page."""
    for package in PACKAGES:
        for path in sorted((project / package).rglob("*.py")):
            if path.name.startswith("_") and path.name != "__init__.py":
                continue
            name = ".".join(path.relative_to(project).with_suffix("").parts).removesuffix(".__init__")
            classes, functions, _ = public(path)
            if path.name == "__init__.py":
                yield name, _package_page(name, path)
            elif classes or functions:
                yield name, _module_page(name, classes, functions)


def _title(text: str) -> list[str]:
    return [text, "=" * len(text), ""]


def _package_page(name: str, path: Path) -> str:
    classes, functions, _ = public(path)
    inside = []
    for other in sorted(path.parent.iterdir()):
        if (other / "__init__.py").exists():
            inside.append((f"{name}.{other.name}", public(other / "__init__.py")[2]))
        elif other.suffix == ".py" and not other.name.startswith("_") and any(public(other)[:2]):
            inside.append((f"{name}.{other.stem}", public(other)[2]))
    title = f"{name}: {TITLES[name]}" if name in TITLES else name
    lines = [*_title(title), f".. automodule:: {name}", "", *_members(name, classes, functions)]
    if inside:
        lines += [".. list-table::", "   :widths: 30 70", ""]
        for module, about in inside:
            lines += [f"   * - :doc:`{module.removeprefix(name + '.')} <{module}>`", f"     - {escaped(about)}"]
        lines += ["", ".. toctree::", "   :hidden:", ""]
        lines += [f"   {module.removeprefix(name + '.')} <{module}>" for module, _ in inside]
    return "\n".join(lines) + "\n"


def _module_page(name: str, classes: list[str], functions: list[str]) -> str:
    return "\n".join([*_title(name), f".. automodule:: {name}", "", *_members(name, classes, functions)]) + "\n"


def _members(name: str, classes: list[str], functions: list[str]) -> list[str]:
    lines = []
    for one in classes:
        lines += [f".. autoclass:: {name}.{one}", "   :members:", "   :undoc-members:", "   :inherited-members:", ""]
    for one in functions:
        lines += [f".. autofunction:: {name}.{one}", ""]
    return lines


def _write(app: Sphinx) -> None:
    folder = Path(app.srcdir) / "reference" / "api"
    folder.mkdir(parents=True, exist_ok=True)
    wanted = {f"{name}.rst": text for name, text in pages(Path(app.srcdir).parent)}
    for path in folder.glob("*.rst"):
        if path.name not in wanted:
            path.unlink()
    for name, text in wanted.items():
        path = folder / name
        if not path.exists() or path.read_text() != text:
            path.write_text(text)


def _missing(app: Sphinx, env: BuildEnvironment, node: nodes.Element, content: nodes.TextElement) -> None:
    """Types in docstrings may be of other packages; what a page names itself is of this project."""
    if node.get("refdomain") == "py" and not node["refdoc"].startswith("reference/api/"):
        logging.getLogger(__name__).warning("no such Python name: %s", node["reftarget"], location=node)


def setup(app: Sphinx) -> dict[str, bool]:
    """Write the pages before Sphinx looks for sources."""
    app.connect("missing-reference", _missing)
    app.connect("builder-inited", _write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
