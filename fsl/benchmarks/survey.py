"""Check of all pictures of a benchmark for missing, superfluous, broken and duplicate ones."""

import hashlib
from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np

from clustering.foundation.cores import on_each_core
from clustering.foundation.errors import InputError
from clustering.foundation.fingerprint import Fingerprint
from clustering.foundation.progress import Progress, quiet
from fsl.benchmarks.benchmark import SPLITS, Benchmark, Split
from fsl.benchmarks.catalogue import Catalogue, known_copy
from fsl.benchmarks.encoded import EncodedPictures
from fsl.benchmarks.images import read_split
from fsl.benchmarks.listed import ListedBenchmark, Listing

BLOCK = 32  # pictures that a core checks at once
NAMED = 5  # largest number of missing or superfluous pictures of a class that are named


class Spot(NamedTuple):
    """The location of a picture."""

    split: Split
    class_name: str
    name: str


@dataclass(frozen=True)
class SplitSurvey:
    """Result of the check of a split.

    Attributes:
        split: the split.
        classes, pictures: numbers of present classes and pictures.
        expected_classes, expected_pictures: expected numbers; 0 if unknown.
        missing: missing classes and numbers of missing pictures, one line each.
        extra: classes and pictures that do not belong to the split, one line each.
        broken: pictures that cannot be read or decoded, one line each.
    """

    split: Split
    classes: int
    pictures: int
    expected_classes: int
    expected_pictures: int
    missing: tuple[str, ...]
    extra: tuple[str, ...]
    broken: tuple[str, ...]

    @property
    def sound(self) -> bool:
        """Whether the split is complete and correct."""
        return not (self.missing or self.extra or self.broken)


@dataclass(frozen=True)
class Survey:
    """Result of the check of a benchmark.

    Attributes:
        layout: layout of its files.
        splits: result for each split.
        twins: groups of pictures with identical bytes.
        fingerprint: hash of all pictures and their classes, independent of file names.
        copy: description of the known copy with this fingerprint; empty if there is none.
    """

    layout: str
    splits: tuple[SplitSurvey, ...]
    twins: tuple[tuple[Spot, ...], ...]
    fingerprint: str
    copy: str = ""

    @property
    def sound(self) -> bool:
        """Whether every split is complete and correct; duplicates are allowed, as some benchmarks contain them."""
        return all(split.sound for split in self.splits)


def survey(benchmark: Benchmark, progress: Progress = quiet) -> Survey:
    """Read and decode every picture, on all cores. Nothing is written.

    Raises:
        InputError: no file of the benchmark is present.
    """
    layout = benchmark.name
    if isinstance(benchmark, ListedBenchmark):
        layout = ", ".join(dict.fromkeys(place.layout for place in benchmark.places()))
    spots_by_digest: defaultdict[bytes, list[Spot]] = defaultdict(list)
    splits = []
    for split in SPLITS:
        listing, expected, broken = _listing(benchmark, split, progress)
        absent: list[int] = []
        with progress.track(f"looking at {benchmark.name}, {split}", len(listing.labels)) as advance:
            starts = range(0, len(listing.labels), BLOCK)
            for start, looked in on_each_core(partial(_look, listing), starts):
                for index, (digest, problem, is_there) in enumerate(looked, start):
                    if not is_there:
                        absent.append(index)
                    elif problem:
                        broken.append(problem)
                    if digest:
                        class_name = listing.class_names[listing.labels[index]]
                        spots_by_digest[digest].append(Spot(split, class_name, listing.pictures.names[index]))
                advance(len(looked))
        splits.append(_split_survey(split, listing, expected, broken, absent))
    fingerprint = Fingerprint(benchmark.name)
    for line in sorted(
        f"{spot.split} {spot.class_name} {key.hex()}" for key, spots in spots_by_digest.items() for spot in spots
    ):
        fingerprint.add(line)
    twins = tuple(tuple(spots) for spots in spots_by_digest.values() if len({spot.name for spot in spots}) > 1)
    return Survey(layout, tuple(splits), twins, str(fingerprint), known_copy(benchmark.name, str(fingerprint)))


def _listing(benchmark: Benchmark, split: Split, progress: Progress) -> tuple[Listing, Catalogue | None, list[str]]:
    """The present pictures of a split, its expected contents (None if unknown), and read errors."""
    if isinstance(benchmark, ListedBenchmark):
        try:
            listing = benchmark.listing(split)
            return listing, benchmark.catalogue, list(listing.faults)
        except InputError as error:  # one archive is damaged; the others are still checked
            nothing = EncodedPictures([], lambda index: b"", benchmark.size)
            facts = replace(benchmark.catalogue, classes=dict.fromkeys(SPLITS, ()), each=0)
            return Listing(nothing, np.empty(0, np.int64), (), {}), facts, [str(error)]
    images, labels, names = read_split(benchmark, split, progress)
    if isinstance(images, EncodedPictures):
        return Listing(images, labels, names, {}), None, []
    pictures = EncodedPictures(
        [f"picture {index} of {split}" for index in range(len(labels))],
        lambda index: np.repeat(images[index : index + 1][0].transpose(1, 2, 0), 3 // benchmark.channels, axis=2),
        benchmark.size,
    )
    return Listing(pictures, labels, names, {}), None, []


def _look(listing: Listing, start: int) -> list[tuple[bytes, str, bool]]:
    """For each picture of a block: its digest, its defect, and whether it is present."""
    looked = []
    for index in range(start, min(start + BLOCK, len(listing.labels))):
        digest, problem, is_there = b"", "", True
        try:
            stored = listing.pictures.stored(index)
            digest = hashlib.sha256(stored if isinstance(stored, bytes) else np.ascontiguousarray(stored).data).digest()
            listing.pictures.decoded(index, stored)
        except InputError as error:
            problem, is_there = str(error), not isinstance(error.__cause__, FileNotFoundError)
        looked.append((digest, problem, is_there))
    return looked


def _split_survey(
    split: Split, listing: Listing, facts: Catalogue | None, broken: Sequence[str], absent: Sequence[int]
) -> SplitSurvey:
    present, lacking = defaultdict[str, list[str]](list), defaultdict[str, list[str]](list)
    gone = set(absent)
    for index, (label, name) in enumerate(zip(listing.labels.tolist(), listing.pictures.names, strict=True)):
        (lacking if index in gone else present)[listing.class_names[label]].append(_file(name))
    expected, total = (facts.counts[split], facts.images[split]) if facts else (0, 0)
    pictures, found = len(listing.labels) - len(absent), present.keys() | lacking
    missing = [f"class {name}" for name in (facts.classes[split] if facts else ()) if name not in found]
    extra = [
        f"{len(names):,} picture{'s' if len(names) != 1 else ''} of {name or 'no class'}{_few(names)}"
        for name, names in sorted(listing.strangers.items())
    ]
    if not missing and len(found) < expected:
        missing.append(f"{expected - len(found)} classes")
    if expected and len(present) > expected:
        extra.append(f"{len(present) - expected} classes")
    for name in dict.fromkeys((*present, *lacking)):
        names, called = present.get(name, []), facts.pictures(name) if facts else frozenset[str]()
        each, named = (
            facts.each if facts else 0,
            not called.isdisjoint(names),
        )  # or the names differ
        lacks = {*lacking.get(name, ()), *(called.difference(names) if named else ())}
        unexpected = [other for other in names if other not in called] if named else []
        short, much = max(len(lacks), each - len(names)), max(len(unexpected), len(names) - each)
        if short > 0:
            amount = f"{short} of {each}" if each else f"{short}"
            missing.append(f"{amount} pictures of class {name}{_few(lacks)}")
        if much > 0 and each:
            extra.append(f"{much} pictures of class {name} ({len(names)}, not {each}){_few(unexpected)}")
    if not (missing or extra) and total and pictures != total:
        (missing if total > pictures else extra).append(f"{abs(total - pictures):,} pictures")
    return SplitSurvey(split, len(present), pictures, expected, total, tuple(missing), tuple(extra), tuple(broken))


def _file(name: str) -> str:
    """The last part of a picture's name: the part after the name of an archive, or the file name."""
    return name.rpartition(": ")[2] if ": " in name else name.replace("\\", "/").rpartition("/")[2]


def _few(names: Collection[str]) -> str:
    """The first names, after a colon."""
    first = [_file(name) for name in sorted(names)[:NAMED]]
    more = f" and {len(names) - NAMED:,} more" if len(names) > NAMED else ""
    return f": {', '.join(first)}{more}" if first else ""
