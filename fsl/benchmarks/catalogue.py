"""Catalogues of benchmarks: the authors' classes of each split, and numbers of pictures."""

import csv
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import resources

from fsl.benchmarks.benchmark import SPLITS, Split


@dataclass(frozen=True)
class Catalogue:
    """The contents of a benchmark that is distributed as files.

    Attributes:
        home: origin of the pictures.
        wanted: expected content of the folder `root`.
        classes: class names of each split, as used for folders; empty if the authors give no list.
        unlisted: number of classes of the splits without a list.
        each: number of pictures per class if it is the same for all classes, else 0.
        images: number of pictures of each split otherwise; 0 if the authors do not state it.
    """

    home: str
    wanted: str
    classes: Mapping[Split, tuple[str, ...]]
    unlisted: Mapping[Split, int] = field(default_factory=dict)
    each: int = 0
    images: Mapping[Split, int] = field(default_factory=dict)

    def size(self, split: Split) -> tuple[int, int]:
        """Numbers of classes and pictures of a split; 0 pictures if unknown."""
        count = len(self.classes[split]) or self.unlisted[split]
        return count, self.each * count or self.images.get(split, 0)

    def owners(self) -> dict[str, Split]:
        """The split of each class according to the authors' lists."""
        return {name: split for split, names in self.classes.items() for name in names}


@cache
def class_lists(name: str) -> dict[Split, tuple[str, ...]]:
    """The authors' classes of each split, sorted, from the file `classes/<name>.csv`."""
    rows = rows_of(name)
    return {split: tuple(sorted(row["class"] for row in rows if row["split"] == split)) for split in SPLITS}


def rows_of(name: str) -> list[dict[str, str]]:
    """The rows of the file `classes/<name>.csv`."""
    text = (resources.files("fsl.benchmarks") / "classes" / f"{name}.csv").read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))
