"""Classes of plug-ins as the settings see them: fields with annotation, default and a line of the docstring each.

The fields of a dataclass count, or those parameters of an estimator's `__init__` that have a plain default, and the
fields of a dataclass that a parameter groups, such as `solver` of XSDC. A class of this project is read from its
source, since importing it takes seconds: its fields and the signature of its `__init__` are compiled without its
methods and without torch.
"""

import ast
import builtins
import collections.abc
import contextlib
import dataclasses
import functools
import importlib.util
import inspect
import re
import sys
import types
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, NamedTuple, Union

from clustering.foundation.parameters import grouped_parameters

PROJECT = ("clustering", "fairness", "fsl", "runs")
REQUIRED = "???"  # in place of a value that the user must give, as in OmegaConf
SIMPLE = (type(None), bool, int, float, str, tuple, list)


class Described(NamedTuple):
    """Annotation, default and first sentence about each field, and the first sentence about the class."""

    hints: Mapping[str, Any]
    defaults: Mapping[str, Any]
    fields: Mapping[str, str]
    about: str


def describe(kind: type, decided: tuple[str, ...] | None = None) -> Described:
    """Return a dataclass as the settings see it; with `decided`, an estimator without these parameters."""
    if decided is None:
        known, none = [field for field in dataclasses.fields(kind) if field.init], dataclasses.MISSING
        defaults = {field.name: REQUIRED if field.default is none else freeze(field.default) for field in known}
        defaults |= {one.name: freeze(one.default_factory()) for one in known if one.default_factory is not none}
    else:
        found = {one.name: one.default for one in inspect.signature(kind).parameters.values()}
        plain = {name: value for name, value in found.items() if isinstance(value, SIMPLE)}
        defaults = {name: freeze(value) for name, value in plain.items() if name not in decided}
    try:
        place: Any = kind if decided is None else kind.__init__  # type: ignore[misc]
        written = typing.get_type_hints(place, include_extras=True)
    except NameError:  # annotations with names imported for type checkers only
        written = {}
    for parameter, group in grouped_parameters(kind).items() if decided is not None else ():
        defaults.pop(parameter)
        inner = describe(group)
        defaults |= inner.defaults
        written |= inner.hints
    hints = {name: _hint(written.get(name, Any), value) for name, value in defaults.items()}
    return Described(hints, defaults, _documented(kind, tuple(defaults)), first_sentence(kind.__doc__ or ""))


def _hint(hint: Any, default: Any) -> Any:
    """Return an annotation with sequences as tuples; the type of the default for one that cannot be checked."""
    kind = _checked(hint)
    several = hint is UNKNOWN or typing.get_origin(hint) in (Union, types.UnionType)  # such as a word or an array
    if kind is not Any or several or default is None or default == REQUIRED:
        return kind
    return tuple[Any, ...] | None if isinstance(default, tuple) else type(default) | None


def _checked(hint: Any) -> Any:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint in (int, float, bool, str, type(None)) or origin is typing.Literal:
        return hint
    if origin is Annotated:
        return Annotated[(_checked(arguments[0]), *arguments[1:])]
    if origin in (Union, types.UnionType):
        parts = [_checked(part) for part in arguments]
        return Any if Any in parts else Union[tuple(parts)]  # noqa: UP007
    if origin in (tuple, list, collections.abc.Sequence):
        return tuple[_checked(arguments[0]), ...]  # type: ignore[misc]
    return Any


def freeze(value: Any) -> Any:
    """Convert lists to tuples, as frozen dataclasses hold them."""
    return tuple(freeze(item) for item in value) if isinstance(value, (list, tuple)) else value


def first_sentence(text: str) -> str:
    """Return the first sentence of a docstring, or of the text about a field."""
    paragraph = " ".join(inspect.cleandoc(text).partition("\n\n")[0].split())
    sentence = re.match(r"(.+?)\.(?=\s+[A-Z]|$)", paragraph)
    return sentence[1] if sentence else paragraph


def _documented(kind: type, names: tuple[str, ...]) -> dict[str, str]:
    """Return what docstrings say about each name: of the class, its bases, and the classes to which it refers."""
    found: dict[str, str] = {}
    for base in kind.__mro__[:-1]:
        text = inspect.cleandoc(base.__doc__ or "")
        for _, words, about in re.findall(r"(?m)^( *)([\w, ]+?) ?: (.+(?:\n\1 +.+)*)", text):
            if not about.lower().startswith(("as in", "see ")):
                new = set(re.findall(r"\w+", words)).intersection(names) - found.keys()
                found |= dict.fromkeys(new, first_sentence(" ".join(about.split())))
        for module, name in re.findall(r"(?:[Aa]s in|[Ss]ee|[Tt]hose of) `(?:([\w.]+)\.)?(\w+)`", text):
            other = read_class(f"{module or base.__module__}:{name}")
            found = _documented(other, names) | found if other else found
    return found


def read_class(place: str) -> type | None:
    """Return "package.module:Class" of this project without its methods; None if it has to be imported."""
    module, _, name = place.partition(":")
    kind = _names(module)[name] if module.partition(".")[0] in PROJECT else None
    return kind if isinstance(kind, type) else None


def parameter_names(place: str) -> list[str]:
    """Return the parameters of a class, without importing its package; empty if its source is not found."""
    module, _, name = place.partition(":")
    kind = _names(module)[name]
    return list(inspect.signature(kind).parameters) if isinstance(kind, type) else []


def about_function(place: str) -> str:
    """Return the first sentence of the docstring of a function of this project."""
    module, _, name = place.partition(":")
    node = _names(module).statements.get(name)
    return first_sentence(ast.get_docstring(node) or "") if isinstance(node, ast.FunctionDef) else ""


def is_mentioned(field: str) -> bool:
    """Return whether a line of this project may define a field of this name; quicker than reading all classes."""
    line = re.compile(rf"^\s+{re.escape(field)}\s*:", flags=re.MULTILINE)
    root = Path(__file__).resolve().parents[2]
    return any(line.search(path.read_text("utf-8")) for name in PROJECT for path in (root / name).rglob("*.py"))


class _Unknown:
    """What is not read, such as a name of torch. All that is made of it is not known either."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # it must not look like a type
            raise AttributeError(name)
        return self

    def __call__(self, *_: Any, **__: Any) -> Any:
        return self

    __getitem__ = __or__ = __ror__ = __call__


UNKNOWN = _Unknown()


class _Names(dict[str, Any]):
    """The names of a module, each read when it is needed: classes without methods, constants, and what is imported.

    Attributes:
        statements: the statements of the module by the names that they define.
    """

    def __init__(self, module: str) -> None:
        super().__init__(__name__=module, __import__=_import)
        self.statements: dict[str, ast.stmt] = {}
        top, *rest = module.split(".")
        spec = importlib.util.find_spec(top)
        path = Path(next(iter((spec and spec.submodule_search_locations) or []), "/nowhere"), *rest)
        path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        for node in ast.parse(path.read_text("utf-8")).body if path.is_file() else ():
            match node:
                case ast.Import() | ast.ImportFrom():
                    self.statements |= {alias.asname or alias.name: node for alias in node.names}
                case ast.ClassDef() | ast.FunctionDef():
                    self.statements[node.name] = node
                case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                    self.statements[name] = node

    def __getattr__(self, name: str) -> Any:
        return self[name]

    def __missing__(self, name: str) -> Any:
        node = self.statements.get(name)
        self[name] = getattr(builtins, name, UNKNOWN) if node is None else UNKNOWN  # while it is read
        if node is not None and not isinstance(node, ast.FunctionDef):
            if isinstance(node, ast.ClassDef):
                self._without_methods(node)
            found: dict[str, Any] = {"__builtins__": self}  # other names of the module are read from here
            with contextlib.suppress(Exception):  # such as arithmetic with what is not known
                exec(compile(ast.Module([node], []), "", "exec"), found)
                self[name] = found[name]
        return self[name]

    def _without_methods(self, node: ast.ClassDef) -> None:
        body: list[ast.stmt] = [ast.Expr(ast.Constant(ast.get_docstring(node) or ""))]
        for line in node.body:
            if isinstance(line, ast.AnnAssign):
                if "ClassVar" in ast.unparse(line.annotation):  # `revision`, or what takes a field of a base away
                    known = line.value if isinstance(line.value, ast.Constant) else None
                    line.annotation, line.value = ast.Name("ClassVar", ast.Load()), known
                if isinstance(line.annotation, ast.Constant):
                    line.annotation = ast.parse(str(line.annotation.value), mode="eval").body
                body.append(line)
            if isinstance(line, ast.FunctionDef) and line.name == "__init__":
                line.body, line.decorator_list = [ast.Pass()], []
                body.append(line)
        node.body, node.keywords = body, []
        node.bases = [base for base in node.bases if isinstance(base, ast.Name) and self[base.id] is not UNKNOWN]
        node.decorator_list = [one for one in node.decorator_list if "dataclass" in ast.unparse(one)]
        ast.fix_missing_locations(node)


def _import(name: str, *_: Any) -> Any:
    """Return a module of the standard library, the names of one of this project, or what is not known."""
    top = name.partition(".")[0]
    if top in sys.stdlib_module_names or name == "clustering.foundation.parameters":
        return importlib.import_module(name)
    return _names(name) if top in PROJECT else UNKNOWN


@functools.cache
def _names(module: str) -> _Names:
    return _Names(module)
