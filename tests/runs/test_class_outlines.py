"""Settings read the classes of this project from their source, as they are when imported."""

import inspect
from dataclasses import fields, is_dataclass

import pytest

from runs.config import groups
from runs.config.source import read_class

NAMED = [(name, one) for name, group in groups.GROUPS.items() if group.plugins for one in group.plugins.table]


@pytest.mark.parametrize(("group", "name"), NAMED, ids=[f"{group}-{name}" for group, name in NAMED])
def test_the_outline_of_a_class_is_that_of_the_class(group: str, name: str) -> None:
    plugins = groups.GROUPS[group].plugins
    assert plugins
    read, imported = read_class(plugins.locate(name)), groups.load(groups.GROUPS[group], name)
    assert read
    assert getattr(read, "revision", 1) == getattr(imported, "revision", 1)
    assert read.__module__ == imported.__module__
    assert list(inspect.signature(read).parameters) == list(inspect.signature(imported).parameters)
    if is_dataclass(imported):
        assert [field.name for field in fields(read)] == [field.name for field in fields(imported)]
