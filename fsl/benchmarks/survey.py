"""Check of all pictures of a benchmark for missing, superfluous, broken and duplicate ones."""

import hashlib
from collections import defaultdict
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from clustering.foundation.cores import on_each_core
from clustering.foundation.errors import InputError
from clustering.foundation.fingerprint import Fingerprint
from clustering.foundation.progress import Progress, quiet
from fsl.benchmarks.benchmark import SPLITS, Benchmark, Split
from fsl.benchmarks.catalogue import known_copy
from fsl.benchmarks.encoded import EncodedPictures
from fsl.benchmarks.images import read_split
from fsl.benchmarks.listed import ListedBenchmark, Listing

BLOCK = 32  # pictures that a core checks at once


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
        classes, pictures: numbers of classes with pictures, and of pictures.
        expected_classes, expected_pictures: expected numbers; 0 if unknown.
        problems: missing and superfluous classes and pictures, one line each.
        broken: pictures that cannot be read or decoded, one line each.
    """

    split: Split
    classes: int
    pictures: int
    expected_classes: int
    expected_pictures: int
    problems: tuple[str, ...]
    broken: tuple[str, ...]


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
        return not any(split.problems or split.broken for split in self.splits)


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
        facts = benchmark.catalogue if isinstance(benchmark, ListedBenchmark) else None
        expected = (facts.counts[split], facts.images[split]) if facts else (0, 0)
        try:
            listing, problems = _listing(benchmark, split, progress)
        except InputError as error:
            if facts is None:
                raise
            splits.append(SplitSurvey(split, 0, 0, *expected, (), (str(error),)))
            continue  # one archive is damaged; the others are still checked
        broken = []
        with progress.track(f"looking at {benchmark.name}, {split}", len(listing.labels)) as advance:
            starts = range(0, len(listing.labels), BLOCK)
            for start, looked in on_each_core(partial(_look, listing), starts):
                for index, (digest, problem) in enumerate(looked, start):
                    if problem:
                        broken.append(problem)
                    if digest:
                        class_name = listing.class_names[listing.labels[index]]
                        spots_by_digest[digest].append(Spot(split, class_name, listing.pictures.names[index]))
                advance(len(looked))
        classes = len(np.unique(listing.labels))
        splits.append(SplitSurvey(split, classes, len(listing.labels), *expected, tuple(problems), tuple(broken)))
    fingerprint = Fingerprint(benchmark.name)
    for line in sorted(
        f"{spot.split} {spot.class_name} {key.hex()}" for key, spots in spots_by_digest.items() for spot in spots
    ):
        fingerprint.add(line)
    twins = tuple(tuple(spots) for spots in spots_by_digest.values() if len({spot.name for spot in spots}) > 1)
    return Survey(layout, tuple(splits), twins, str(fingerprint), known_copy(benchmark.name, str(fingerprint)))


def _listing(benchmark: Benchmark, split: Split, progress: Progress) -> tuple[Listing, list[str]]:
    """The pictures of a split, and what is wrong with their number."""
    if isinstance(benchmark, ListedBenchmark):
        listing = benchmark.listing(split)
        others = [
            f"{len(names):,} pictures of {name or 'no class'}, which is none of the authors' lists"
            for name, names in sorted(listing.strangers.items())
            if not benchmark.catalogue.split_of(name)
        ]
        return listing, benchmark.problems(split, listing) + others
    images, labels, names = read_split(benchmark, split, progress)
    if not isinstance(images, EncodedPictures):
        pixels = images
        images = EncodedPictures(
            [f"picture {index} of {split}" for index in range(len(labels))],
            lambda index: np.repeat(pixels[index : index + 1][0].transpose(1, 2, 0), 3 // benchmark.channels, axis=2),
            benchmark.size,
        )
    return Listing(images, labels, names, {}), []


def _look(listing: Listing, start: int) -> list[tuple[bytes, str]]:
    """The digest and the defect of each picture of a block."""
    looked = []
    for index in range(start, min(start + BLOCK, len(listing.labels))):
        digest, problem = b"", ""
        try:
            stored = listing.pictures.stored(index)
            digest = hashlib.sha256(stored if isinstance(stored, bytes) else np.ascontiguousarray(stored).data).digest()
            listing.pictures.decoded(index, stored)
        except InputError as error:
            problem = str(error)
        looked.append((digest, problem))
    return looked
