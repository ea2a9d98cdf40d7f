"""Fields of plug-ins as a schema for OmegaConf, read from their source: a misspelt key should not wait for torch.

A class of this project is read with `ast`; a class of another package, or one whose defaults are not written out, is
imported. Fields are those of a dataclass, or the parameters of an estimator's `__init__` that have a default.
"""

import ast
import collections.abc
import dataclasses
import functools
import importlib.util
import inspect
import operator
import re
import types
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Union

from clustering.foundation import parameters

PROJECT = ("clustering", "fairness", "fsl", "runs")
REQUIRED = "???"  # OmegaConf's placeholder for a value that the user must give
OPERATORS: Mapping[type[ast.operator], Any] = {
    ast.BitOr: operator.or_,
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
}
CALLED: Mapping[str, Any] = {
    **{kind.__name__: kind for kind in (parameters.AtLeast, parameters.Above, parameters.UpTo, parameters.Within)},
    "field": dataclasses.field,
}
REFERS = ("as in", "see ")
SIMPLE = (type(None), bool, int, float, str, tuple, list)


@dataclass(frozen=True)
class Described:
    """A class as the settings see it.

    Attributes:
        schema: a light dataclass with the fields, their annotations and defaults.
        about: first sentence of the docstring.
        fields: first sentence about each field, from the docstring.
    """

    schema: type
    about: str
    fields: Mapping[str, str]

    @functools.cached_property
    def hints(self) -> dict[str, Any]:
        """The annotation of each field."""
        return {field.name: field.type for field in dataclasses.fields(self.schema)}

    @functools.cached_property
    def defaults(self) -> dict[str, Any]:
        """The default of each field, with lists as tuples."""
        return {field.name: default_of(field) for field in dataclasses.fields(self.schema)}


def default_of(field: "dataclasses.Field[Any]") -> Any:
    """Return the default of a field of a dataclass, REQUIRED if there is none."""
    if field.default is not dataclasses.MISSING:
        return field.default
    return REQUIRED if field.default_factory is dataclasses.MISSING else field.default_factory()


@functools.cache
def read_class(place: str, estimator: bool = False, decided: tuple[str, ...] = ()) -> Described | None:
    """Return a class of this project, read from its source without importing it; None if it has to be imported.

    Args:
        place: "package.module:Class".
        estimator: whether the fields are the parameters of `__init__`.
        decided: parameters that are no fields.
    """
    module, _, name = place.partition(":")
    if module.partition(".")[0] not in PROJECT:
        return None
    try:
        owner, node = _Module.of(module).find(name)
        rows = _parameters(owner, node) if estimator else dict(_fields(owner, node))
    except (_UnreadableError, OSError, SyntaxError):
        return None
    if estimator:
        rows = {
            name: row
            for name, row in rows.items()
            if name not in decided and row[1] is not dataclasses.MISSING and isinstance(row[1], SIMPLE)
        }
    about = _documented(owner, node, tuple(rows))
    return dataclasses.replace(
        _described(
            node.name,
            rows,
            ast.get_docstring(node) or "",
        ),
        fields=about,
    )


def describe(kind: type, estimator: bool = False, decided: tuple[str, ...] = ()) -> Described:
    """Return a class that has been imported, as `read_class` describes one of this project."""
    rows: dict[str, tuple[Any, Any]]
    if estimator:
        try:
            hints = typing.get_type_hints(kind.__init__, include_extras=True)  # type: ignore[misc]
        except NameError:  # annotations with names imported for type checkers only
            hints = {}
        rows = {
            name: (hints.get(name, Any), parameter.default)
            for name, parameter in inspect.signature(kind).parameters.items()
            if name not in decided and isinstance(parameter.default, SIMPLE)
        }
    else:
        hints = typing.get_type_hints(kind, include_extras=True)
        rows = {
            field.name: (hints[field.name], dataclasses.MISSING if (d := default_of(field)) == REQUIRED else d)
            for field in dataclasses.fields(kind)
            if field.init
        }
    return _described(kind.__name__, rows, kind.__doc__ or "")


def _described(name: str, rows: Mapping[str, tuple[Any, Any]], text: str) -> Described:
    fields: list[Any] = []
    for field, (hint, value) in rows.items():
        default = {} if value is dataclasses.MISSING else {"default": freeze(value)}
        fields.append((field, supported(hint), dataclasses.field(**default, kw_only=True)))
    schema = dataclasses.make_dataclass(name, fields, frozen=True)
    return Described(schema, first_sentence(text), documented(text, tuple(rows)))


def supported(hint: Any) -> Any:
    """Return an annotation in the terms of OmegaConf: sequences as tuples, and Any for what it does not know."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint in (int, float, bool, str, type(None), Any) or origin is typing.Literal:
        return hint
    if origin is Annotated:
        return Annotated[(supported(arguments[0]), *arguments[1:])]
    if origin in (Union, types.UnionType):
        parts = [supported(part) for part in arguments]
        return Any if Any in parts else Union[tuple(parts)]  # noqa: UP007
    if origin in (tuple, list, collections.abc.Sequence) and arguments:
        return tuple[supported(arguments[0]), ...]  # type: ignore[misc]
    return Any


def freeze(value: Any) -> Any:
    """Convert lists to tuples, as frozen dataclasses hold them."""
    return tuple(freeze(item) for item in value) if isinstance(value, (list, tuple)) else value


def first_sentence(text: str) -> str:
    """Return the first sentence of a docstring, or of the text about a field."""
    paragraph = " ".join(inspect.cleandoc(text).partition("\n\n")[0].split())
    sentence = re.match(r"(.+?)\.(?=\s+[A-Z]|$)", paragraph)
    return sentence[1] if sentence else paragraph


def documented(text: str, names: tuple[str, ...]) -> dict[str, str]:
    """Return the first sentence about each name in a docstring: `name: text`, or `name : text` for several names."""
    found: dict[str, str] = {}
    lines = inspect.cleandoc(text).splitlines()
    for i, line in enumerate(lines):
        match = re.match(r"( *)([\w, ]+?) ?: (.+)", line)
        mentioned = [word.strip() for word in match[2].split(",")] if match else []
        if match is None or not set(mentioned) & set(names):
            continue
        indent = len(match[1])
        rest = []
        for following in lines[i + 1 :]:
            if not following.strip() or len(following) - len(following.lstrip()) <= indent:
                break
            rest.append(following)
        sentence = first_sentence(" ".join([match[3], *rest]))
        found |= {name: sentence for name in mentioned if name in names and name not in found}
    return found


def about_function(place: str) -> str:
    """Return the first sentence of the docstring of a function of this project."""
    module, _, name = place.partition(":")
    functions = [node for node in _Module.of(module).tree.body if isinstance(node, ast.FunctionDef)]
    return next((first_sentence(ast.get_docstring(node) or "") for node in functions if node.name == name), "")


@functools.cache
def is_mentioned(field: str) -> bool:
    """Return whether a line of this project may define a field of this name; quicker than reading all classes."""
    line = re.compile(rf"^\s+{re.escape(field)}\s*:", flags=re.MULTILINE)
    root = Path(__file__).resolve().parents[2]
    return any(line.search(path.read_text("utf-8")) for name in PROJECT for path in (root / name).rglob("*.py"))


@functools.cache
def parameter_names(place: str) -> tuple[str, ...]:
    """Return the parameters of a class of another package, without importing it; empty if its source is not found."""
    module, _, name = place.partition(":")
    try:
        tree = _Module.of(module).tree
    except (_UnreadableError, OSError, SyntaxError):
        return ()
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and node.name == name:
            for line in node.body:
                if isinstance(line, ast.FunctionDef) and line.name == "__init__":
                    return tuple(argument.arg for argument in [*line.args.args[1:], *line.args.kwonlyargs])
    return ()


class _UnreadableError(Exception):
    """A class that is not written out plainly, and has to be imported."""


@dataclass
class _Module:
    """The source of a module, with the values of its names."""

    name: str
    path: Path
    tree: ast.Module

    @staticmethod
    @functools.cache
    def of(name: str) -> "_Module":
        top, *rest = name.split(".")
        spec = importlib.util.find_spec(top)
        if spec is None or not spec.submodule_search_locations:
            raise _UnreadableError(name)
        folder = Path(next(iter(spec.submodule_search_locations))).joinpath(*rest)
        path = folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")
        return _Module(name, path, ast.parse(path.read_text(encoding="utf-8")))

    @functools.cached_property
    def names(self) -> "_Names":
        return _Names(self)

    def find(self, name: str) -> "tuple[_Module, ast.ClassDef]":
        """Return a class and the module that defines it."""
        for node in self.tree.body:
            if isinstance(node, ast.ClassDef) and node.name == name:
                return self, node
        found: tuple[_Module, ast.ClassDef] = self.imported(name, lambda module, original: module.find(original))
        return found

    def imported(self, name: str, use: Any) -> Any:
        """Return what `use` finds in the module from which a name is imported."""
        for node in self.tree.body:
            if isinstance(node, ast.ImportFrom) and node.module and node.module.partition(".")[0] in PROJECT:
                for alias in node.names:
                    if (alias.asname or alias.name) == name:
                        return use(_Module.of(node.module), alias.name)
        raise _UnreadableError(f"{self.name}:{name}")

    def value(self, node: ast.expr) -> Any:
        """Return the value of an annotation or a default. Only what stands there plainly is computed; no code runs."""
        try:
            return self._value(node)
        except (TypeError, ValueError, KeyError, AttributeError, ArithmeticError) as error:
            raise _UnreadableError(f"{self.name}: {ast.unparse(node)}") from error

    def _value(self, node: ast.expr) -> Any:
        match node:
            case ast.Constant():
                return node.value
            case ast.Name():
                return self.names[node.id]
            case ast.Tuple() | ast.List():
                return tuple(map(self._value, node.elts))
            case ast.UnaryOp(op=ast.USub()):
                return -self._value(node.operand)
            case ast.BinOp() if type(node.op) in OPERATORS:
                return OPERATORS[type(node.op)](self._value(node.left), self._value(node.right))
            case ast.Subscript():
                return self._value(node.value)[self._value(node.slice)]
            case ast.Call(func=ast.Name(id=called)) if called in CALLED:
                named = {str(keyword.arg): self._value(keyword.value) for keyword in node.keywords}
                return CALLED[called](*map(self._value, node.args), **named)
        raise _UnreadableError(f"{self.name}: {ast.unparse(node)}")


class _Names(dict[str, Any]):
    """Names of a module: those of `typing` and of parameters, and constants of this project."""

    def __init__(self, module: _Module) -> None:
        super().__init__({**vars(typing), **vars(parameters)})
        self.update({kind.__name__: kind for kind in (int, float, bool, str, tuple, list, frozenset)})
        self.module = module

    def __missing__(self, name: str) -> Any:
        for node in self.module.tree.body:
            if not isinstance(node, (ast.Assign, ast.AnnAssign)) or node.value is None:
                continue
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(isinstance(target, ast.Name) and target.id == name for target in targets):
                self[name] = self.module.value(node.value)
                return self[name]
        self[name] = self.module.imported(name, lambda module, original: module.names[original])
        return self[name]


def _hint(module: _Module, node: ast.expr) -> Any:
    try:
        return module.value(ast.parse(node.value, mode="eval").body if _is_text(node) else node)  # type: ignore
    except _UnreadableError:
        return Any


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _bases(module: _Module, node: ast.ClassDef) -> Iterator[tuple[_Module, ast.ClassDef]]:
    """Yield the base classes that belong to this project."""
    for base in node.bases:
        if isinstance(base, ast.Name):
            try:
                yield module.find(base.id)
            except _UnreadableError:
                continue


def _fields(module: _Module, node: ast.ClassDef) -> Iterator[tuple[str, tuple[Any, Any]]]:
    for base in _bases(module, node):
        yield from _fields(*base)
    own = any("dataclass" in ast.unparse(decorator) for decorator in node.decorator_list)
    for line in node.body if own else ():
        if not isinstance(line, ast.AnnAssign) or not isinstance(line.target, ast.Name):
            continue
        if ast.unparse(line.annotation).startswith(("ClassVar", '"ClassVar')):
            continue
        value = dataclasses.MISSING if line.value is None else module.value(line.value)
        if isinstance(value, dataclasses.Field):
            value = value.default if value.default_factory is dataclasses.MISSING else value.default_factory()
        yield line.target.id, (_hint(module, line.annotation), value)


def _parameters(module: _Module, node: ast.ClassDef) -> dict[str, tuple[Any, Any]]:
    """Return the parameters of `__init__`: annotation, and default or MISSING."""
    for line in node.body:
        if isinstance(line, ast.FunctionDef) and line.name == "__init__":
            plain = [*line.args.posonlyargs, *line.args.args][1:]
            defaults = [None] * (len(plain) - len(line.args.defaults)) + list(line.args.defaults)
            pairs = [
                *zip(plain, defaults, strict=False),
                *zip(line.args.kwonlyargs, line.args.kw_defaults, strict=True),
            ]
            return {
                argument.arg: (
                    Any if argument.annotation is None else _hint(module, argument.annotation),
                    dataclasses.MISSING if default is None else module.value(default),
                )
                for argument, default in pairs
            }
    for base in _bases(module, node):
        return _parameters(*base)
    raise _UnreadableError(f"{node.name} has no __init__")


def _documented(module: _Module, node: ast.ClassDef, names: tuple[str, ...]) -> dict[str, str]:
    """Return the texts about fields of a class, its bases, and the classes to which its docstring refers."""
    text = ast.get_docstring(node) or ""
    found = {name: about for name, about in documented(text, names).items() if not about.lower().startswith(REFERS)}
    for place, name in re.findall(r"(?:[Aa]s in|[Ss]ee|[Tt]hose of) `([\w.]+\.)?(\w+)`", text):
        try:
            described = _Module.of(place.rstrip(".")) if place else module
            found = _documented(*described.find(name), names) | found
        except (_UnreadableError, OSError):
            continue
    for base in _bases(module, node):
        found = _documented(*base, names) | found
    return found
