"""What code computes a result: a hash of the source behind a module, so that edited code is told from old."""

import ast
import functools
import hashlib
import importlib.util
from collections.abc import Iterable
from pathlib import Path

from clustering.errors import InputError


@functools.cache
def code_fingerprint(*modules: str) -> str:
    """Hash of modules and of all that they import from their own top-level packages or from this project.

    Comments, docstrings and layout do not count. Nothing is imported. 16 hexadecimal digits.

    Args:
        modules: dotted names, such as "fsl.strategies.laplacianshot".
    """
    packages = {name.partition(".")[0] for name in modules} | {"clustering", "fsl"}
    found: dict[str, str] = {}
    waiting = list(modules)
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        path = _source(name)
        if path is None:
            if name in modules:
                raise InputError(f"cannot find the source of {name}, which tells whether a result is still up to date")
            continue
        tree = ast.parse(path.read_bytes())
        waiting += [imported for imported in _imports(tree, name, path) if imported.partition(".")[0] in packages]
        found[name] = ast.dump(_bare(tree))
    text = "\0".join(f"{name}\0{found[name]}" for name in sorted(found))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _source(name: str) -> Path | None:
    """File of a module, or None where the name is none (but an attribute of one) or it has no source."""
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return None
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        return None
    return Path(spec.origin)


def _imports(tree: ast.AST, name: str, path: Path) -> Iterable[str]:
    """Names that may be modules: of `from a import b` both `a` and `a.b`."""
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
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
    """The tree without docstrings."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            first = node.body[0] if node.body else None
            value = first.value if isinstance(first, ast.Expr) else None
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                node.body = node.body[1:]
    return tree
