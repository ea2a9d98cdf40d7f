"""Catalogues of benchmarks: the authors' classes of each split, and numbers of pictures."""

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import resources

from fsl.benchmarks.benchmark import SPLITS, Split


@dataclass(frozen=True)
class Catalogue:
    """The contents of a benchmark that is distributed as files.

    Attributes:
        classes: class names of each split, as used for folders; empty if the authors give no list.
        counts: number of classes of each split.
        images: number of pictures of each split; 0 if the authors do not state it.
        each: number of pictures per class if it is the same for all classes, else 0.
        home: origin of the pictures.
        wanted: expected content of the folder `root`.
    """

    classes: Mapping[Split, tuple[str, ...]]
    counts: Mapping[Split, int]
    images: Mapping[Split, int]
    home: str
    wanted: str
    each: int = 0

    def split_of(self, class_name: str) -> Split | None:
        """The split of a class according to the authors' lists."""
        return self._owners.get(class_name)

    @cached_property
    def _owners(self) -> dict[str, Split]:
        return {name: split for split, names in self.classes.items() for name in names}


@cache
def class_lists(name: str) -> dict[Split, tuple[str, ...]]:
    """The authors' classes of each split, sorted, from the file `classes/<name>.csv`."""
    rows = rows_of(name)
    return {split: tuple(sorted(row["class"] for row in rows if row["split"] == split)) for split in SPLITS}


def known_copy(name: str, fingerprint: str) -> str:
    """Description of the published copy with this fingerprint, from the file `classes/copies.csv`; empty if unknown."""
    copies = (
        row["about"] for row in rows_of("copies") if (row["benchmark"], row["fingerprint"]) == (name, fingerprint)
    )
    return next(copies, "")


def rows_of(name: str) -> list[dict[str, str]]:
    """The rows of the file `classes/<name>.csv`."""
    text = (resources.files("fsl.benchmarks") / "classes" / f"{name}.csv").read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))
