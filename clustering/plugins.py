"""Names of plug-ins: one explicit table, then installed packages' entry points, then `package.module:Class`."""

import functools
import importlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import metadata
from typing import Any

from clustering.errors import InputError, unknown


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
        module, _, attribute = self.locate(name).partition(":")
        try:
            return getattr(importlib.import_module(module), attribute)
        except (ImportError, AttributeError, ValueError) as error:
            raise InputError(f"{self.kind} {name!r}: cannot import {attribute!r} from {module!r}: {error}") from error

    def unknown(self, name: str, known: Iterable[str], key: str = "") -> InputError:
        """For a name that is none of these: the nearest right ones, or how a class of a module is written.

        Args:
            key: what the name was given to, where that is not `kind`.
        """
        kind = key or self.kind
        module, _, attribute = name.rpartition(".")
        if module:
            return InputError(f"unknown {kind} {name!r}; a class of a module is {kind}={module}:{attribute}")
        return unknown(kind, name, known)

    def _entry_points(self) -> dict[str, str]:
        return _installed(self.group)


@functools.cache
def _installed(group: str) -> dict[str, str]:
    """What installed packages offer. Looking through all of them takes some ten milliseconds."""
    return {point.name: point.value for point in metadata.entry_points(group=group)}
