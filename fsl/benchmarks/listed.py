"""Benchmarks distributed as files, checked against their authors' lists of classes."""

import csv
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import resources
from pathlib import Path
from typing import ClassVar

import numpy as np
import pandas as pd

from clustering.files.pictures import Fit
from clustering.files.regular import open_regular
from clustering.foundation.errors import InputError, setting
from clustering.foundation.fingerprint import Fingerprint
from clustering.foundation.parameters import Validated
from fsl.benchmarks.augmentation import Augmentation
from fsl.benchmarks.benchmark import SPLITS, Decoded, Split
from fsl.benchmarks.layouts import EncodedPictures, Place, find_places, folder_of, frame_of, relative

Classes = Mapping[Split, tuple[str, ...]]
RECIPE = 2  # increased with every change that gives other images for the same files
HASHED = 1 << 28  # largest size in bytes of a file whose whole content is hashed
IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
PHOTOGRAPHS = Augmentation(crop=0.08, flip=True, brightness=0.4, contrast=0.4, saturation=0.4)
SAMPLES = 64  # number of hashed blocks of a larger file


def rows_of(name: str) -> list[dict[str, str]]:
    """The rows of the file `classes/<name>.csv`."""
    text = (resources.files("fsl.benchmarks") / "classes" / f"{name}.csv").read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))


@cache
def class_lists(name: str) -> Classes:
    """The authors' classes of each split, sorted, from the file `classes/<name>.csv`."""
    rows = rows_of(name)
    return {split: tuple(sorted(row["class"] for row in rows if row["split"] == split)) for split in SPLITS}


@dataclass(frozen=True)
class ListedBenchmark(Validated):
    """Base class of benchmarks with known contents, which each subclass declares.

    Attributes:
        root: folder of the pictures, in any layout of `fsl.benchmarks.layouts`.
    """

    root: str | None = None

    name: ClassVar[str]
    home: ClassVar[str]  # origin of the pictures
    wanted: ClassVar[str]  # expected content of the folder `root`
    classes: ClassVar[Classes]  # class names of each split, as used for folders; empty if the authors give no list
    unlisted: ClassVar[Mapping[Split, int]] = {}  # number of classes of the splits without a list
    each: ClassVar[int] = 0  # number of pictures per class if it is the same for all classes
    images: ClassVar[Mapping[Split, int]] = {}  # number of pictures of each split otherwise, as far as it is stated
    channels: ClassVar[int] = 3
    size: ClassVar[int] = 84
    fit: ClassVar[Fit] = "squeeze"  # how pictures are made square
    validates_on_base: ClassVar[bool] = False  # whether the validation classes are every tenth base class
    mean: ClassVar[tuple[float, ...]] = IMAGENET_MEAN
    std: ClassVar[tuple[float, ...]] = IMAGENET_STD
    augmentation: ClassVar[Augmentation] = PHOTOGRAPHS

    @classmethod
    def owners(cls) -> dict[str, Split]:
        """The split of each class according to the authors' lists."""
        return {name: split for split, names in cls.classes.items() for name in names}

    @classmethod
    def counts(cls, split: Split) -> tuple[int, int]:
        """Numbers of classes and pictures of a split; 0 pictures if unknown."""
        classes = len(cls.classes[split]) or cls.unlisted[split]
        return classes, cls.each * classes or cls.images.get(split, 0)

    @classmethod
    def _stored(cls, split: Split) -> Split:
        """The split among whose pictures those of a split are."""
        return "base" if cls.validates_on_base and split == "validation" else split

    def places(self) -> list[Place]:
        """The locations of the pictures.

        Raises:
            InputError: the folder is missing or contains no pictures; the message states what it must contain.
        """
        wanted = f"{self.wanted}; `transduce data where {self.name}` says where it comes from"
        if places := find_places(folder_of(self.name, self.root, wanted), self.owners()):
            return places
        raise InputError(
            f"benchmark {self.name}: {self.root} has no pictures of this benchmark; pass root=FOLDER with {wanted}"
        )

    def source(self) -> str:
        """Identity of the files: the content of archives and lists, and the names and sizes of pictures.

        For archives above 256 MiB, only the size and 64 evenly spaced blocks are hashed. The result is cached
        until the time or size of an archive changes.

        Raises:
            InputError: a split has no file.
        """
        places, folder = self.places(), Path(self.root or "").expanduser()
        for split in dict.fromkeys(map(self._stored, SPLITS)):
            if not any(place.split in (None, split) for place in places):
                raise InputError(
                    f"benchmark {self.name}: {self.root} has {places[0].layout}, but no {split} classes; pass "
                    f"root=FOLDER with {self.wanted}"
                )
        described = (
            (
                place.layout,
                tuple((file, *_state(file)) for file in place.files),
                tuple(f"{relative(picture, folder)} {size_of(picture)}" for picture in place.pictures),
            )
            for place in places
        )
        return _identity(self.name, tuple(described))

    def listing(self, split: Split) -> Decoded:
        """The pictures of a split that are present, complete or not; a class may have none.

        Classes are recognised by the authors' names. If none occurs, the classes are those of the file or folder named
        after the split.

        Raises:
            InputError: a file cannot be read.
        """
        asked, split = split, self._stored(split)
        places = [place for place in self.places() if place.split in (None, split)]
        frames = [place.open().assign(split=place.split) for place in places]
        found: pd.DataFrame = pd.concat(frames or [frame_of([], [], bytes, []).assign(split=None)], ignore_index=True)
        classes, owner = self.classes[split], found["class_name"].map(self.owners())
        listed = bool(classes) and bool(owner.notna().any())
        by_name = found["split"].isna() | listed
        # a number that is not in the authors' list may mean another class in another split
        apart = found["class_name"].map(lambda name: f"{split} {name}" if name.isdigit() else name)
        found["class_name"] = found["class_name"].where(by_name, apart)
        found = found[~by_name | (owner == split)]
        names = tuple(sorted({*found["class_name"], *(classes if listed else ())}, key=_natural))
        names = names[9::10] if split != asked else names
        labels = pd.Index(names, dtype=object).get_indexer(found["class_name"])
        order = np.argsort(labels, kind="stable")
        order = order[labels[order] >= 0]
        found = found.iloc[order]
        reads, keys = found["read"].tolist(), found["key"].tolist()
        pictures = EncodedPictures(found["picture"].tolist(), lambda i: reads[i](keys[i]), self.size, self.fit)
        return Decoded(pictures, labels[order].astype(np.int64), names)

    def read(self, split: Split) -> Decoded:
        """The pictures of a split, (N, 3, size, size), sorted by class. Each is decoded on access.

        Raises:
            InputError: files are missing or damaged, or classes are incomplete or belong to another split.
        """
        listing = self.listing(split)
        problems = self.problems(split, listing)
        if problems:
            raise InputError(
                f"benchmark {self.name}: {self.root} has {problems[0]}; `transduce data check benchmark={self.name} "
                f"{setting('root', self.root)}` lists all that is missing or superfluous"
            )
        return listing

    def problems(self, split: Split, listing: Decoded) -> list[str]:
        """What the pictures of a split have in place of what the authors list, one line each."""
        found = list[str]()
        sizes = np.bincount(listing.labels, minlength=len(listing.class_names)).tolist()
        counts = {name: count for name, count in zip(listing.class_names, sizes, strict=True) if count}
        classes, pictures = self.counts(split)
        if len(counts) != classes:
            lacking = [name for name in self.classes[split] if name not in counts]
            listed = f" (not {', '.join(lacking)})" if lacking else ""
            found.append(f"{len(counts)} of the {classes} {split} classes{listed}")
        wrong = {name: count for name, count in counts.items() if self.each and count != self.each}
        found += [
            f"{count} pictures of the {split} class {name} ({len(wrong)} classes differ), not {self.each}"
            for name, count in wrong.items()
        ]
        if not found and pictures not in (0, len(listing.labels)):
            found.append(f"{len(listing.labels):,} {split} pictures, not {pictures:,}")
        return found


@lru_cache(maxsize=64)  # hashing takes time
def _identity(name: str, places: tuple[tuple[str, tuple[tuple[Path, int, int], ...], tuple[str, ...]], ...]) -> str:
    """Fingerprint of places: their layout, archives with size and time, and pictures with size."""
    fingerprint = Fingerprint(name, RECIPE)
    for layout, files, pictures in places:
        fingerprint.add(layout)
        for file, *_ in files:
            _add_content(fingerprint, file)
        for picture in pictures:
            fingerprint.add(picture)
    return str(fingerprint)


def _add_content(fingerprint: Fingerprint, file: Path) -> None:
    try:
        with open_regular(file) as stream:
            if (size := file.stat().st_size) <= HASHED:
                fingerprint.add(stream.read())
                return
            fingerprint.add(size)
            for block in range(SAMPLES):
                stream.seek(block * (size - (1 << 20)) // (SAMPLES - 1))
                fingerprint.add(stream.read(1 << 20))
    except OSError as error:
        raise InputError(f"{file}: cannot be read ({error.strerror}); put it with the other files") from error


def _state(file: str | Path) -> tuple[int, int]:
    """Size and time, by which an unchanged archive is recognised without reading it; -1 if there is no file."""
    try:
        status = os.stat(file)
    except OSError:  # reported when the file is read
        return -1, 0
    return status.st_size, status.st_mtime_ns


def size_of(file: str) -> int:
    """Size in bytes; -1 if there is no file."""
    return _state(file)[0]


def _natural(name: str) -> tuple[list[tuple[int, str]], str]:
    """Sort key that compares numbers in names by value."""
    parts = [part for part in re.split(r"([0-9]+)", name) if part]
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in parts], name
