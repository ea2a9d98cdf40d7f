"""A look at every picture of a benchmark: what is there, what is missing, broken, or there twice."""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from clustering.cores import on_each_core
from clustering.errors import InputError
from clustering.fingerprint import Fingerprint
from fsl.benchmarks.benchmark import SPLITS, Benchmark, Split
from fsl.benchmarks.encoded import EncodedPictures
from fsl.benchmarks.images import read_split
from fsl.benchmarks.listed import ListedBenchmark, Listing
from fsl.progress import Progress, quiet

BLOCK = 32  # pictures looked at by a core in one go


class Spot(NamedTuple):
    """Where a picture stands."""

    split: Split
    class_name: str
    name: str


@dataclass(frozen=True)
class SplitSurvey:
    """What is there of a split.

    Attributes:
        split: which.
        classes, pictures: how many there are.
        expected_classes, expected_pictures: how many there should be; 0 where nobody says.
        missing: classes and numbers of pictures that lack, a line each.
        extra: what does not belong there, a line each.
        broken: pictures that cannot be read or decoded, a line each.
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
        """Whether it is as it should be."""
        return not (self.missing or self.extra or self.broken)


@dataclass(frozen=True)
class Survey:
    """What is there of a benchmark.

    Attributes:
        layout: in which form its files are.
        splits: what is there of each.
        twins: groups of pictures that are the same byte by byte.
        fingerprint: of every picture with its class, whatever the files are called: which copy this is.
    """

    layout: str
    splits: tuple[SplitSurvey, ...]
    twins: tuple[tuple[Spot, ...], ...]
    fingerprint: str

    @property
    def sound(self) -> bool:
        """Whether every split is as it should be; that some pictures are there twice is the authors' own doing."""
        return all(split.sound for split in self.splits)


def survey(benchmark: Benchmark, progress: Progress = quiet) -> Survey:
    """Read and decode every picture, on all cores; nothing is written.

    Raises:
        InputError: where nothing of the benchmark is there.
    """
    layout = benchmark.name
    if isinstance(benchmark, ListedBenchmark):
        layout = ", ".join(dict.fromkeys(place.layout for place in benchmark.places()))
    same: defaultdict[bytes, list[Spot]] = defaultdict(list)
    splits = []
    for split in SPLITS:
        found, expected, broken = _listing(benchmark, split, progress)
        with progress.track(f"looking at {benchmark.name}, {split}", len(found.labels)) as advance:
            starts = range(0, len(found.labels), BLOCK)
            for start, looked in on_each_core(partial(_look, found), starts):
                for index, (digest, problem) in enumerate(looked, start):
                    if problem:
                        broken.append(problem)
                    if digest:
                        class_name = found.class_names[found.labels[index]]
                        same[digest].append(Spot(split, class_name, found.pictures.names[index]))
                advance(len(looked))
        splits.append(_split_survey(split, found, expected, broken))
    fingerprint = Fingerprint(benchmark.name)
    for line in sorted(f"{spot.split} {spot.class_name} {key.hex()}" for key, spots in same.items() for spot in spots):
        fingerprint.add(line)
    return Survey(
        layout, tuple(splits), tuple(tuple(spots) for spots in same.values() if len(spots) > 1), str(fingerprint)
    )


class _Expected(NamedTuple):
    classes: int = 0
    pictures: int = 0
    each: int = 0
    names: tuple[str, ...] = ()


def _listing(benchmark: Benchmark, split: Split, progress: Progress) -> tuple[Listing, _Expected, list[str]]:
    """What is there of a split, what should be, and what could not be read; a benchmark that does not say is as it
    reads."""
    if isinstance(benchmark, ListedBenchmark):
        facts = benchmark.catalogue
        expected = _Expected(facts.counts[split], facts.images[split], facts.each, facts.classes[split])
        try:
            return benchmark.listing(split), expected, []
        except InputError as error:  # one archive is damaged, and what the others hold is to be seen all the same
            nothing = EncodedPictures([], lambda index: b"", benchmark.size)
            expected = expected._replace(names=(), each=0)
            return Listing(nothing, np.empty(0, np.int64), (), Counter()), expected, [str(error)]
    images, labels, names = read_split(benchmark, split, progress)
    if isinstance(images, EncodedPictures):
        return Listing(images, labels, names, Counter()), _Expected(), []
    pictures = EncodedPictures(
        [f"picture {index} of {split}" for index in range(len(labels))],
        lambda index: np.repeat(images[index : index + 1][0].transpose(1, 2, 0), 3 // benchmark.channels, axis=2),
        benchmark.size,
    )
    return Listing(pictures, labels, names, Counter()), _Expected(), []


def _look(found: Listing, start: int) -> list[tuple[bytes, str]]:
    """Of each picture of a block its digest, and what is wrong with it."""
    looked = []
    for index in range(start, min(start + BLOCK, len(found.labels))):
        digest, problem = b"", ""
        try:
            stored = found.pictures.stored(index)
            digest = hashlib.sha256(stored if isinstance(stored, bytes) else np.ascontiguousarray(stored).data).digest()
            found.pictures.decoded(index, stored)
        except InputError as error:
            problem = str(error)
        looked.append((digest, problem))
    return looked


def _split_survey(split: Split, found: Listing, expected: _Expected, broken: Sequence[str]) -> SplitSurvey:
    counts = dict(zip(found.class_names, np.bincount(found.labels, minlength=len(found.class_names)), strict=True))
    there = {name: int(count) for name, count in counts.items() if count}
    pictures = len(found.labels)
    missing = [f"class {name}" for name in expected.names if name not in there]
    extra = [f"{count:,} pictures of {name or 'no class'}" for name, count in sorted(found.strangers.items())]
    if not missing and len(there) < expected.classes:
        missing.append(f"{expected.classes - len(there)} classes")
    if expected.classes and len(there) > expected.classes:
        extra.append(f"{len(there) - expected.classes} classes")
    for name, count in there.items() if expected.each else ():
        if count < expected.each:
            missing.append(f"{expected.each - count} of {expected.each} pictures of class {name}")
        elif count > expected.each:
            extra.append(f"{count - expected.each} pictures of class {name} ({count}, not {expected.each})")
    if not (missing or extra) and expected.pictures and pictures != expected.pictures:
        lacking = expected.pictures - pictures
        (missing if lacking > 0 else extra).append(f"{abs(lacking):,} pictures")
    return SplitSurvey(
        split,
        len(there),
        pictures,
        expected.classes,
        expected.pictures,
        tuple(missing),
        tuple(extra),
        tuple(broken),
    )
