"""What a benchmark consists of, as its authors say: classes by split, and how many pictures there are."""

import csv
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import resources

from fsl.benchmarks.benchmark import SPLITS, Split


@dataclass(frozen=True)
class Catalogue:
    """The facts about a benchmark that people have as files.

    Attributes:
        name: as in the table of benchmarks.
        classes: names of the classes of each split, as folders are called; none where the authors give no list.
        counts: how many classes a split has.
        images: how many pictures a split has; 0 where the authors do not say.
        each: how many of them every class has, where all have the same number.
        pictures: what the pictures of a class are called; nothing where the authors give no names.
        home: where the pictures come from.
        wanted: what the folder holds that is to be named.
    """

    name: str
    classes: Mapping[Split, tuple[str, ...]]
    counts: Mapping[Split, int]
    images: Mapping[Split, int]
    home: str
    wanted: str
    each: int = 0
    pictures: Callable[[str], frozenset[str]] = frozenset

    def split_of(self, class_name: str) -> Split | None:
        """The split that a class belongs to, by the authors' lists."""
        return self._owners.get(class_name)

    @cached_property
    def _owners(self) -> dict[str, Split]:
        return {name: split for split, names in self.classes.items() for name in names}


@cache
def class_lists(name: str) -> dict[Split, tuple[str, ...]]:
    """The authors' classes of each split, sorted: of the file `classes/<name>.csv`."""
    rows = _rows(name)
    return {split: tuple(sorted(row["class"] for row in rows if row["split"] == split)) for split in SPLITS}


def known_copy(name: str, fingerprint: str) -> str:
    """Which copy of a benchmark has this fingerprint, in words, by the file `classes/copies.csv`; empty for others."""
    copies = (row["about"] for row in _rows("copies") if (row["benchmark"], row["fingerprint"]) == (name, fingerprint))
    return next(copies, "")


@cache
def numbered_pictures(name: str) -> dict[str, frozenset[int]]:
    """The numbers of each class's pictures, of the file `classes/<name>.csv`: there a hexadecimal number whose bit i is
    set where picture i is one of them."""
    bits = {row["class"]: int(row["numbers"], 16) for row in _rows(name)}
    return {name: frozenset(i for i in range(of.bit_length()) if of >> i & 1) for name, of in bits.items()}


def _rows(name: str) -> list[dict[str, str]]:
    text = (resources.files("fsl.benchmarks") / "classes" / f"{name}.csv").read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))
