"""The papers' tables, figures, errata and causes of differences, read from `runs/published/`.

    table = published_table("thesis/4.1")
    table.values[18, 0].value, table.values[18, 0].corrected  # LaplacianShot on ResNet-18, 1-shot: 72.11, 70.74

How a cell is run here is in `configs/table/`. `runs/published/table.schema.json` describes the files of tables;
`runs.tables.papers.published_files` reads and checks them.
"""

import importlib.resources
import re
from collections.abc import Mapping
from functools import cache
from typing import Any

import yaml

from clustering.foundation.errors import InputError, unknown
from runs.tables.papers.printed import Cause, Erratum, PublishedFigure, PublishedTable, Statement
from runs.tables.papers.published_files import build, cause_from, erratum_from, table_from

NAME = re.compile(r"[a-z_][a-z0-9_]*/[0-9A-Z][0-9A-Z.]*")  # WORK/NUMBER
FOLDER = importlib.resources.files("runs") / "published"
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the loader in C, if available, takes a tenth of the time


def works() -> dict[str, str]:
    """Titles of the works, by their short names."""
    return {work: content["title"] for work, content in _works().items()}


def published_names() -> list[str]:
    """Names of all tables, "thesis/1.1" and so on, in printed order."""
    return [f"{work}/{number}" for work, content in _works().items() for number in content["tables"]]


def published_table(name: str) -> PublishedTable:
    """The table of that name.

    Raises:
        InputError: for an unknown name, with the nearest right one.
    """
    if name not in published_names():
        raise unknown("published table", name, published_names())
    return _table(name)


def errata() -> dict[str, Erratum]:
    """All errata by id."""
    return dict(_errata())


def causes() -> dict[str, Cause]:
    """All causes of differences by id."""
    return dict(_causes())


def figures() -> tuple[PublishedFigure, ...]:
    """All figures, in printed order."""
    return tuple(build(PublishedFigure, entry, where) for entry, where in _by_work("figures.yaml"))


def stated() -> tuple[Statement, ...]:
    """The numbers that are only in the text."""
    return tuple(build(Statement, entry, where) for entry, where in _by_work("stated.yaml"))


@cache
def _works() -> dict[str, Any]:
    works = read_published("works.yaml")
    for name in (f"{work}/{number}" for work, content in works.items() for number in content["tables"]):
        if not NAME.fullmatch(name):
            raise InputError(
                f"runs/published/works.yaml: table name {name!r}: write lower-case letters, digits and _ for the work "
                "(no digit first), and digits, capitals and dots for the number"
            )
    return works


@cache
def _errata() -> Mapping[str, Erratum]:
    content = read_published("errata.yaml")
    return {key: erratum_from(key, content[key], published_names()) for key in content}


@cache
def _causes() -> Mapping[str, Cause]:
    content = read_published("causes.yaml")
    tables = {name: published_table(name) for name in published_names()}
    return {key: cause_from(key, content[key], tables) for key in content}


@cache
def _table(name: str) -> PublishedTable:
    return table_from(name, read_published(f"{name}.yaml"), _errata(), published_names())


def _by_work(file: str) -> list[tuple[dict[str, Any], str]]:
    """The entries of a file that lists them by work, each with its work, and their place for messages."""
    content = read_published(file)
    return [({"work": work, **entry}, f"runs/published/{file}, {work}") for work in content for entry in content[work]]


def read_published(file: str) -> dict[str, Any]:
    """The content of a file of `runs/published/`."""
    try:
        content = yaml.load((FOLDER / file).read_text(encoding="utf-8"), LOADER)
    except (OSError, yaml.YAMLError) as error:
        raise InputError(f"runs/published/{file}: not a readable YAML file: {error}") from error
    if not isinstance(content, dict):
        raise InputError(f"runs/published/{file}: must hold lines of the form `key: value`")
    return content
