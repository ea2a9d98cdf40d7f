"""What code computes a result: a hash of the source behind a module, so that edited code is told from old."""

import ast
import functools
import hashlib
import importlib.util
import sysconfig
from collections.abc import Iterable
from pathlib import Path

from clustering.errors import InputError

NO_RESULT = (
    "clustering.errors",
    "clustering.plugins",
    "clustering.code",
    "clustering.memory",
    "clustering.slk_memory",
    "fsl.closed_splits",
    "fsl.progress",
)
"""Modules that say and find things but compute nothing: editing them leaves every result as it was."""


@functools.cache
def code_fingerprint(*modules: str, follow: bool = True) -> str:
    """Hash of the source of modules and of all that they import, installed packages and the standard library aside.

    Comments, docstrings, layout and what is imported for type checkers only do not count. Nothing is imported.

    Args:
        modules: dotted names, such as "fsl.strategies.laplacianshot".
        follow: whether imports count.

    Returns:
        16 hexadecimal digits.

    Raises:
        InputError: a module without source.
    """
    found: dict[str, str] = {}
    waiting = list(modules)
    while waiting:
        name = waiting.pop()
        if name in found or name in NO_RESULT:
            continue
        path = _source(name)
        if path is None or _is_installed(path):
            if name not in modules:
                continue
            if path is None:
                raise InputError(f"cannot find the source of {name}, which tells whether a result is still up to date")
        found[name], imports = _read(name, path.name == "__init__.py", path.read_bytes())
        if follow:
            waiting += imports
    text = "\0".join(f"{name}\0{found[name]}" for name in sorted(found))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@functools.cache
def _read(name: str, is_package: bool, source: bytes) -> tuple[str, tuple[str, ...]]:
    """What a module computes, and the names that it may import: two strategies share most of their modules."""
    tree = _bare(ast.parse(source))
    return ast.dump(tree), tuple(dict.fromkeys(_imports(tree, name, is_package)))


def _is_installed(path: Path) -> bool:
    """Whether a file is of the standard library or of an installed package, whose versions are fixed elsewhere."""
    return any(path.is_relative_to(place) for place in _places())


@functools.cache
def _places() -> set[str]:
    return {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}


def _source(name: str) -> Path | None:
    """File of a module, or None where the name is none (but an attribute of one) or it has no source."""
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return None
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        return None
    return Path(spec.origin)


def _imports(tree: ast.AST, name: str, is_package: bool) -> Iterable[str]:
    """Names that may be modules: of `from a import b` both `a` and `a.b`."""
    package = name if is_package else name.rpartition(".")[0]
    for node in ast.walk(tree):
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
    """The tree without docstrings and without what only type checkers read."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            first = node.body[0] if node.body else None
            value = first.value if isinstance(first, ast.Expr) else None
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                node.body = node.body[1:]
        if isinstance(node, ast.Module):
            node.body = [part for part in node.body if not _for_type_checkers(part)]
    return tree


def _for_type_checkers(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
