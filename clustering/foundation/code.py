"""Fingerprint of the source code behind a result, which changes when the code is edited."""

import ast
import functools
import hashlib
import importlib.util
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from clustering.foundation.errors import InputError

NO_RESULT = (
    "clustering.foundation.errors",
    "clustering.foundation.plugins",
    "clustering.foundation.code",
    "clustering.foundation.memory",
    "clustering.foundation.progress",
    "clustering.foundation.torchvision_without_cuda",
    "clustering.slk.memory",
    "fsl.evaluation.closed_splits",
)
"""Modules that do not affect results, so that editing them does not change the fingerprint."""


@functools.cache
def code_fingerprint(*modules: str, follow: bool = True) -> str:
    """Hash of the source of modules and of all code of this project, or of a plug-in, that they import.

    The code of a plug-in is its package, or the modules beside its file. Everything else counts as installed, with its
    version recorded elsewhere. Comments, docstrings, layout and imports for type checkers do not count. Nothing is
    imported.

    Args:
        modules: dotted names, such as "fsl.strategies.laplacianshot".
        follow: whether to include imported modules.

    Returns:
        16 hexadecimal digits.

    Raises:
        InputError: a module has no source.
    """
    sources = _Sources(modules)
    code_of: dict[str, str] = {}
    waiting = list(modules)
    while waiting:
        name = waiting.pop()
        if name in code_of or name in NO_RESULT:
            continue
        path = sources.path(name)
        if path is None:
            if name in modules:
                raise InputError(
                    f"cannot find the source code of {name}, which decides whether a stored result is up to date; "
                    "define it in a file"
                )
            continue
        code_of[name], imports = _read(name, path.name == "__init__.py", path.read_bytes())
        if follow:
            waiting += imports
    text = "\0".join(f"{name}\0{code_of[name]}" for name in sorted(code_of))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@functools.cache
def _read(name: str, is_package: bool, source: bytes) -> tuple[str, tuple[str, ...]]:
    """The code of a module, and the names that it may import. Cached, since strategies share most of their modules."""
    tree = _bare(ast.parse(source))
    return ast.dump(tree), tuple(dict.fromkeys(_imports(tree, name, is_package)))


class _Sources:
    """Files of the project's own modules and of those beside a plug-in."""

    def __init__(self, modules: Iterable[str]) -> None:
        self._tops: dict[str, Path] = {name: _PROJECT / name for name in _ROOMS}  # first part of a name -> its place
        self._folders: list[Path] = []  # folders whose modules belong to a plug-in
        for top in {module.partition(".")[0] for module in modules} - set(_ROOMS):
            place = _place(top)
            if place is not None:
                self._tops[top] = place
                if not _holds_installed_packages(place.parent):
                    self._folders.append(place.parent)

    def path(self, name: str) -> Path | None:
        """File of a module; None if it is installed, or is not a module but an attribute of one."""
        top, *parts = name.split(".")
        places = [self._tops[top]] if top in self._tops else [folder / top for folder in self._folders]
        for place in places:
            stem = place.joinpath(*parts)
            for path in (stem / "__init__.py", stem.with_name(stem.name + ".py")):
                if path.is_file():
                    return path
        return None


_PROJECT = Path(__file__).resolve().parents[2]
_ROOMS = ("clustering", "fairness", "fsl", "runs")


def _place(top: str) -> Path | None:
    """Path, without extension, of a top-level module or package, located without importing it."""
    try:
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError):
        return None
    if spec is None:
        return None
    if spec.submodule_search_locations:
        return Path(next(iter(spec.submodule_search_locations)))
    return Path(spec.origin).with_suffix("") if spec.origin and spec.origin.endswith(".py") else None


def _holds_installed_packages(folder: Path) -> bool:
    """Whether the folder contains installed packages: site-packages, or the standard library."""
    return any(folder.glob("*.dist-info")) or folder == Path(os.__file__).parent


def _imports(tree: ast.AST, name: str, is_package: bool) -> Iterable[str]:
    """Names that may be modules; `from a import b` gives both `a` and `a.b`."""
    package = name if is_package else name.rpartition(".")[0]
    for node in _statements(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*above, *([node.module] if node.module else [])])
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)


def _bare(tree: ast.Module) -> ast.Module:
    """The tree without docstrings and without imports for type checkers."""
    for node in _statements(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            first = node.body[0] if node.body else None
            value = first.value if isinstance(first, ast.Expr) else None
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                node.body = node.body[1:]
        if isinstance(node, ast.Module):
            node.body = [part for part in node.body if not _for_type_checkers(part)]
    return tree


def _statements(tree: ast.AST) -> Iterator[ast.AST]:
    """All blocks and statements of a tree; expressions, which are most of it, contain none."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        for part in ("body", "orelse", "finalbody", "handlers", "cases"):
            waiting += getattr(node, part, ())


def _for_type_checkers(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
