"""Names of plug-ins: one explicit table, then installed packages' entry points, then `package.module:Class` or
`FILE.py:Class`, whose code is run."""

import functools
import importlib
import sys
import traceback
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any

from clustering.foundation.errors import InputError, unknown


@dataclass(frozen=True)
class Plugins:
    """The plug-ins of one kind.

    Attributes:
        kind: the word for it in messages, such as "strategy".
        table: name -> "package.module:Class" of those that come with the project.
        group: the entry-point group in which other packages offer theirs, such as "transduce.strategies".
    """

    kind: str
    table: Mapping[str, str]
    group: str

    def names(self) -> list[str]:
        """Every known name: the table's own, then those of installed packages."""
        return list(self.table) + [name for name in self._entry_points() if name not in self.table]

    def locate(self, name: str) -> str:
        """`package.module:Class` for a name. Imports nothing.

        Raises:
            InputError: for an unknown name, with the nearest right one.
        """
        if ":" in name:
            return name
        if name in self.table:
            return self.table[name]
        entry_points = self._entry_points()
        if name in entry_points:
            return entry_points[name]
        raise self.unknown(name, [*self.table, *entry_points])

    def load(self, name: str) -> Any:
        """The class of that name.

        Raises:
            InputError: for an unknown name, or where what it names cannot be imported.
        """
        module, _, attribute = self.locate(name).rpartition(":")
        try:
            found = importlib.import_module(module) if not module.endswith(".py") else _from_file(Path(module))
            return getattr(found, attribute)
        except (Exception, SystemExit) as error:  # a plug-in's code may raise anything
            raise InputError(
                f"{self.kind} {name!r}: cannot import {attribute!r} from {module!r}: {_cause(error)}"
            ) from error

    def unknown(self, name: str, known: Iterable[str], key: str = "") -> InputError:
        """For a name that is none of these: the nearest right ones, or how a class of a module is written.

        Args:
            key: what the name was given to, where that is not `kind`.
        """
        kind = key or self.kind
        if name.endswith(".py"):
            return InputError(f"unknown {kind} {name!r}; a class of a file is {kind}={name}:CLASS")
        module, _, attribute = name.rpartition(".")
        if module:
            return InputError(f"unknown {kind} {name!r}; a class of a module is {kind}={module}:{attribute}")
        return unknown(kind, name, known)

    def _entry_points(self) -> dict[str, str]:
        return _installed(self.group)


def dotted(name: str) -> str:
    """One name for what is given as a file or as a module: `folder/mine.py:Class` is `mine:Class`."""
    module, _, attribute = name.rpartition(":")
    return f"{Path(module).stem}:{attribute}" if module.endswith(".py") else name


def _from_file(path: Path) -> ModuleType:
    """The module of a file. Its folder becomes one where modules are looked for, after everything installed, so that it
    is found again by its name.

    Raises:
        InputError: no such file, or another module has its name.
    """
    place = path.expanduser().resolve()
    if not place.is_file():
        raise InputError(f"{path}: no such file; give FILE.py:CLASS, or package.module:CLASS")
    if str(place.parent) not in sys.path:
        sys.path.append(str(place.parent))
        importlib.invalidate_caches()
    found = importlib.import_module(place.stem)
    if Path(getattr(found, "__file__", None) or "").resolve() != place:
        raise InputError(f"{path}: another module is called {place.stem}, too; give the file a name of its own")
    return found


def _cause(error: BaseException) -> str:
    """What is wrong with the code of a plug-in, and in which line."""
    if isinstance(error, InputError):
        return str(error)
    if isinstance(error, SyntaxError):
        return f"{error.filename}, line {error.lineno}: {type(error).__name__}: {error.msg}"
    machinery = (__file__, importlib.__file__)
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename not in machinery]
    own = next((frame for frame in frames if not frame.filename.startswith("<frozen importlib")), None)
    return f"{f'{own.filename}, line {own.lineno}: ' if own else ''}{type(error).__name__}: {error}"


@functools.cache
def _installed(group: str) -> dict[str, str]:
    """What installed packages offer. Looking through all of them takes some ten milliseconds."""
    return {point.name: point.value for point in metadata.entry_points(group=group)}
