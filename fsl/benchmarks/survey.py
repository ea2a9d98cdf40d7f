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
from fsl.benchmarks.benchmark import SPLITS, Benchmark, ImageArray, Split
from fsl.benchmarks.encoded import EncodedPictures
from fsl.benchmarks.images import read_split
from fsl.benchmarks.listed import ListedBenchmark

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
        expected_classes, expected_pictures: expected numbers; 0 if unknown.
        classes, pictures: numbers of classes with pictures, and of pictures.
        problems: missing classes, and missing and superfluous pictures, one line each.
        broken: pictures that cannot be read or decoded, one line each.
    """

    split: Split
    expected_classes: int
    expected_pictures: int
    classes: int = 0
    pictures: int = 0
    problems: tuple[str, ...] = ()
    broken: tuple[str, ...] = ()


@dataclass(frozen=True)
class Survey:
    """Result of the check of a benchmark.

    Attributes:
        layout: layout of its files.
        splits: result for each split.
        twins: groups of pictures with identical bytes.
        fingerprint: hash of all pictures and their classes, independent of file names.
    """

    layout: str
    splits: tuple[SplitSurvey, ...]
    twins: tuple[tuple[Spot, ...], ...]
    fingerprint: str

    @property
    def sound(self) -> bool:
        """Whether every split is complete and correct; duplicates are allowed, as some benchmarks contain them."""
        return not any(split.problems or split.broken for split in self.splits)


def survey(benchmark: Benchmark, progress: Progress = quiet) -> Survey:
    """Read and decode every picture, on all cores. Nothing is written.

    Raises:
        InputError: no file of the benchmark is present.
    """
    listed = benchmark if isinstance(benchmark, ListedBenchmark) else None
    layout = ", ".join(dict.fromkeys(place.layout for place in listed.places())) if listed else benchmark.name
    spots: defaultdict[str, list[Spot]] = defaultdict(list)
    splits = []
    for split in SPLITS:
        expected, problems = listed.catalogue.size(split) if listed else (0, 0), list[str]()
        images: ImageArray
        try:
            if listed:
                listing = listed.listing(split)
                images, labels, names = listing.pictures, listing.labels, listing.class_names
                problems = listed.problems(split, listing)
            else:
                images, labels, names = read_split(benchmark, split, progress)
        except InputError as error:
            if not listed:
                raise
            splits.append(SplitSurvey(split, *expected, broken=(str(error),)))
            continue  # one archive is damaged; the others are still checked
        broken = []
        with progress.track(f"looking at {benchmark.name}, {split}", len(labels)) as advance:
            blocks = (range(start, min(start + BLOCK, len(labels))) for start in range(0, len(labels), BLOCK))
            for block, looked in on_each_core(partial(_look, images), blocks):
                for index, (digest, problem) in zip(block, looked, strict=True):
                    broken += [problem] if problem else []
                    if digest:
                        known = images.names[index] if isinstance(images, EncodedPictures) else ""
                        spot = Spot(split, names[labels[index]], known or f"picture {index} of {split}")
                        spots[digest].append(spot)
                advance(len(block))
        counts = len(np.unique(labels)), len(labels)
        splits.append(SplitSurvey(split, *expected, *counts, tuple(problems), tuple(broken)))
    lines = sorted(f"{spot.split} {spot.class_name} {key}" for key, same in spots.items() for spot in same)
    twins = tuple(tuple(same) for same in spots.values() if len({spot.name for spot in same}) > 1)
    return Survey(layout, tuple(splits), twins, str(Fingerprint(benchmark.name, *lines)))


def _look(images: ImageArray, block: range) -> list[tuple[str, str]]:
    """The digest and the defect of each picture of a block."""
    looked = []
    for index in block:
        digest, problem = "", ""
        try:
            encoded = images if isinstance(images, EncodedPictures) else None
            stored = encoded.stored(index) if encoded else images[index : index + 1]
            data = stored if isinstance(stored, bytes) else np.ascontiguousarray(stored).data
            digest = hashlib.sha256(data).hexdigest()
            if encoded:
                encoded.decoded(index, stored)
        except InputError as error:
            problem = str(error)
        looked.append((digest, problem))
    return looked
