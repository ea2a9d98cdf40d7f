"""Benchmarks distributed as files, checked against their authors' lists of classes."""

import os
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from clustering.files.regular import open_regular
from clustering.foundation.errors import InputError
from clustering.foundation.fingerprint import Fingerprint
from clustering.foundation.parameters import validate
from fsl.benchmarks.augmentation import Augmentation
from fsl.benchmarks.benchmark import SPLITS, Decoded, Split
from fsl.benchmarks.catalogue import Catalogue
from fsl.benchmarks.encoded import EncodedPictures, Fit
from fsl.benchmarks.holdings import Place, find_places

RECIPE = 2  # increased with every change that gives other images for the same files
HASHED = 1 << 28  # largest size in bytes of a file whose whole content is hashed
SAMPLES = 64  # number of hashed blocks of a larger file

_sources: dict[tuple[str, tuple[tuple[str, str, int, int], ...]], str] = {}  # hashing takes time


@dataclass(frozen=True)
class Listing:
    """The pictures of a split that are present, complete or not. They are not decoded yet.

    Attributes:
        pictures: the N pictures, sorted by class, and within a class by file.
        labels: (N,) int64 labels 0..K-1; a class may have no picture.
        class_names: K names.
        strangers: names of pictures whose class does not belong to the split, by class.
        faults: other defects, one line each.
    """

    pictures: EncodedPictures
    labels: NDArray[np.int64]
    class_names: tuple[str, ...]
    strangers: Mapping[str, Sequence[str]]
    faults: Sequence[str] = ()


@dataclass(frozen=True)
class ListedBenchmark:
    """Base class of benchmarks with known contents, which each subclass declares.

    Attributes:
        root: folder of the pictures, in any layout of `fsl.benchmarks.holdings`.
    """

    root: str | None = None

    name: ClassVar[str]
    catalogue: ClassVar[Catalogue]
    stored: ClassVar[tuple[Split, ...]] = SPLITS  # splits that occur in file names
    channels: ClassVar[int] = 3
    size: ClassVar[int] = 84
    fit: ClassVar[Fit] = "squeeze"  # how pictures are made square
    validates_on_base: ClassVar[bool] = False  # whether validation classes are also base classes
    mean: ClassVar[tuple[float, ...]] = (0.485, 0.456, 0.406)
    std: ClassVar[tuple[float, ...]] = (0.229, 0.224, 0.225)
    augmentation: ClassVar[Augmentation] = Augmentation(
        crop=0.08, flip=True, brightness=0.4, contrast=0.4, saturation=0.4
    )

    def __post_init__(self) -> None:
        validate(self)

    def places(self) -> list[Place]:
        """The locations of the pictures.

        Raises:
            InputError: the folder is missing or contains no pictures; the message states what it must contain.
        """
        wanted = self.catalogue.wanted
        remedy = f"pass root=FOLDER with {wanted}; `transduce data where {self.name}` says where it comes from"
        if not self.root:
            raise InputError(f"benchmark {self.name}: no folder given; {remedy}")
        folder = Path(self.root).expanduser()
        if not folder.is_dir():
            raise InputError(f"benchmark {self.name}: {folder} is not a folder; {remedy}")
        places = find_places(folder, self.catalogue)
        if not places:
            raise InputError(f"benchmark {self.name}: {folder} has no pictures of this benchmark; {remedy}")
        return places

    def source(self) -> str:
        """Identity of the files: the content of archives and lists, and the names and sizes of pictures.

        For archives above 256 MiB, only the size and 64 evenly spaced blocks are hashed. The result is cached
        until the time or size of an archive changes.

        Raises:
            InputError: a split has no file.
        """
        places = self.places()
        for split in self.stored:
            if not any(place.split in (None, split) for place in places):
                raise InputError(
                    f"benchmark {self.name}: {self.root} has {places[0].layout}, but no {split} classes; pass "
                    f"root=FOLDER with {self.catalogue.wanted}"
                )
        key = self.name, tuple((place.layout, str(file), *_stamp(file)) for place in places for file in place.files)
        if any(place.pictures for place in places) or key not in _sources:
            _sources[key] = self._fingerprint(places)
        return _sources[key]

    def _fingerprint(self, places: Iterable[Place]) -> str:
        folder = Path(self.root or "").expanduser()
        fingerprint = Fingerprint(self.name, RECIPE)
        for place in places:
            fingerprint.add(place.layout)
            for file in place.files:
                _add_content(fingerprint, file)
            for picture in place.pictures:
                fingerprint.add(f"{relative(picture, folder)} {size_of(picture)}")
        return str(fingerprint)

    def listing(self, split: Split) -> Listing:
        """The pictures of a split that are present, complete or not.

        Classes are recognised by the authors' names. If none occurs, the classes are those of the file or folder named
        after the split.

        Raises:
            InputError: a file cannot be read.
        """
        relevant = [place for place in self.places() if place.split in (None, split)]
        holdings = [place.open() for place in relevant]
        owner = {name: self.catalogue.split_of(name) for holding in holdings for name in set(holding.classes)}
        listed = bool(self.catalogue.classes[split]) and any(owner.values())
        chosen: list[tuple[str, int, int]] = []  # class, holding, index
        strangers: defaultdict[str, list[str]] = defaultdict(list)
        for number, (place, holding) in enumerate(zip(relevant, holdings, strict=True)):
            by_name = listed or place.split is None
            called = {name: name if by_name else _apart(name, split) for name in set(holding.classes)}
            for index, name in enumerate(holding.classes):
                if not by_name or owner[name] == split:
                    chosen.append((called[name], number, index))
                elif place.split == split or owner[name] is None:
                    strangers[name].append(holding.names[index])

        chosen_names = {name for name, _, _ in chosen}
        names = tuple(sorted(chosen_names | set(self.catalogue.classes[split] if listed else ()), key=_natural))
        labels_of = {name: label for label, name in enumerate(names)}
        labels = np.array([labels_of[name] for name, _, _ in chosen], np.int64)
        order = np.argsort(labels, kind="stable")
        spots = [chosen[i][1:] for i in order]

        def read(index: int) -> bytes | NDArray[np.uint8]:
            holding, place = spots[index]
            stored: bytes | NDArray[np.uint8] = holdings[holding].read(place)
            return stored

        pictures = EncodedPictures(
            [holdings[holding].names[index] for holding, index in spots], read, self.size, self.fit
        )
        return Listing(pictures, labels[order], names, strangers)

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
                f"root={self.root}` lists all that is missing or superfluous"
            )
        return Decoded(listing.pictures, listing.labels, listing.class_names)

    def problems(self, split: Split, listing: Listing) -> list[str]:
        """What the pictures of a split have in place of what the authors list, one line each."""
        facts, found = self.catalogue, list[str]()
        for name in sorted(listing.strangers):
            owner = facts.split_of(name)
            if owner:
                of = f"which is a {owner} class by the authors' lists"
                found.append(f"{name} among the {split} classes, {of} ({len(listing.strangers)} classes are not of it)")
        sizes = np.bincount(listing.labels, minlength=len(listing.class_names)).tolist()
        counts = dict(zip(listing.class_names, sizes, strict=True))
        present = [name for name, count in counts.items() if count]
        if len(present) != facts.counts[split]:
            lacking = [name for name in facts.classes[split] if not counts.get(name)]
            listed = f" (not {', '.join(lacking)})" if lacking else ""
            found.append(f"{len(present)} of the {facts.counts[split]} {split} classes{listed}")
        short = [name for name in present if facts.each and counts[name] != facts.each]
        found += [
            f"{counts[name]} pictures of the {split} class {name} ({len(short)} classes differ), not {facts.each}"
            for name in short
        ]
        if not found and facts.images[split] not in (0, len(listing.labels)):
            found.append(f"{len(listing.labels):,} {split} pictures, not {facts.images[split]:,}")
        return found + list(listing.faults)


def _stamp(file: Path) -> tuple[int, int]:
    """Size and time of an archive, by which an unchanged one is recognised without reading it."""
    try:
        status = file.stat()
    except OSError:  # reported when the file is read
        return -1, 0
    return status.st_size, status.st_mtime_ns


def relative(file: str, folder: Path) -> str:
    """The path of a file relative to a folder, which need not contain it."""
    start = f"{folder}{os.sep}"
    return file.removeprefix(start) if file.startswith(start) else os.path.relpath(file, folder)


def size_of(file: str) -> int:
    """Size in bytes; -1 if there is no file."""
    try:
        return os.stat(file).st_size
    except OSError:
        return -1


def _add_content(fingerprint: Fingerprint, file: Path) -> None:
    try:
        size = file.stat().st_size
        with open_regular(file) as stream:
            if size <= HASHED:
                fingerprint.add(stream.read())
                return
            fingerprint.add(size)
            for block in range(SAMPLES):
                stream.seek(block * (size - (1 << 20)) // (SAMPLES - 1))
                fingerprint.add(stream.read(1 << 20))
    except OSError as error:
        raise InputError(
            f"{file}: cannot be read ({error.strerror}); move it to the folder of the other files"
        ) from error


def _apart(name: str, split: Split) -> str:
    """A unique name for a class that is a number, because other splits may use the same number."""
    return f"{split} {name}" if name.isdigit() else name


def _natural(name: str) -> tuple[list[tuple[int, str]], str]:
    """Sort key that compares numbers in names by value."""
    parts = [part for part in re.split(r"([0-9]+)", name) if part]
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in parts], name
