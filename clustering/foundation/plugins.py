"""Plug-ins by name: from an explicit table, from entry points of installed packages, or as `package.module:Class` or
`FILE.py:Class`.

Loading a plug-in runs its code.
"""

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
        kind: the word for them in messages, such as "strategy".
        table: "package.module:Class" by name, for the plug-ins of this project.
        group: entry-point group for plug-ins of other packages, such as "transduce.strategies".
    """

    kind: str
    table: Mapping[str, str]
    group: str

    def places(self) -> dict[str, str]:
        """`package.module:Class` by name: those of the table, then those of installed packages."""
        return {**self.table, **_installed(self.group), **self.table}

    def names(self) -> list[str]:
        """All known names."""
        return list(self.places())

    def locate(self, name: str) -> str:
        """`package.module:Class` for a name, without importing anything.

        Raises:
            InputError: the name is unknown; the message suggests the nearest known one.
        """
        if ":" in name:
            return name
        places = self.table if name in self.table else self.places()
        if name not in places:
            raise self.unknown(name, places)
        return places[name]

    def load(self, name: str) -> Any:
        """The class with this name.

        Raises:
            InputError: the name is unknown, or its class cannot be imported.
        """
        module, _, attribute = self.locate(name).rpartition(":")
        try:
            loaded = importlib.import_module(module) if not module.endswith(".py") else _from_file(Path(module))
            return getattr(loaded, attribute)
        except (Exception, SystemExit) as error:  # the code of a plug-in may raise anything
            raise InputError(
                f"{self.kind} {name!r}: cannot import {attribute!r} from {module!r}: {_cause(error)}"
            ) from error

    def unknown(self, name: str, known: Iterable[str], key: str = "") -> InputError:
        """Error for an unknown name, with the nearest known ones, or with the syntax for a class of a module.

        Args:
            name: the unknown name.
            known: the known names.
            key: what the name was passed as, if that is not `kind`.
        """
        kind = key or self.kind
        if name.endswith(".py"):
            return InputError(f"unknown {kind} {name!r}; a class of a file is {kind}={name}:CLASS")
        module, _, attribute = name.rpartition(".")
        if module:
            return InputError(f"unknown {kind} {name!r}; a class of a module is {kind}={module}:{attribute}")
        return unknown(kind, name, known)


def dotted(name: str) -> str:
    """The same name for a file and a module: `folder/mine.py:Class` becomes `mine:Class`."""
    module, _, attribute = name.rpartition(":")
    return f"{Path(module).stem}:{attribute}" if module.endswith(".py") else name


def _from_file(path: Path) -> ModuleType:
    """Import the module in a file. Its folder is appended to the search path, so that the module can be imported by
    name.

    Raises:
        InputError: the file does not exist, or another module has its name.
    """
    place = path.expanduser().resolve()
    if not place.is_file():
        raise InputError(f"{path}: no such file; use FILE.py:CLASS, or package.module:CLASS")
    if str(place.parent) not in sys.path:
        sys.path.append(str(place.parent))
        importlib.invalidate_caches()
    module = importlib.import_module(place.stem)
    if Path(getattr(module, "__file__", None) or "").resolve() != place:
        raise InputError(f"{path}: another module is named {place.stem}, too; rename the file")
    return module


def _cause(error: BaseException) -> str:
    """Description of an error in the code of a plug-in, with its line."""
    if isinstance(error, InputError):
        return str(error)
    if isinstance(error, SyntaxError):
        return f"{error.filename}, line {error.lineno}: {type(error).__name__}: {error.msg}"
    machinery = (__file__, importlib.__file__)
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename not in machinery]
    place = next((frame for frame in frames if not frame.filename.startswith("<frozen importlib")), None)
    return f"{f'{place.filename}, line {place.lineno}: ' if place else ''}{type(error).__name__}: {error}"


@functools.cache
def _installed(group: str) -> dict[str, str]:
    """Plug-ins of installed packages."""
    return {point.name: point.value for point in metadata.entry_points(group=group)}
