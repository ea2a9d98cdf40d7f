"""Check of all pictures of a benchmark for missing, superfluous, broken and duplicate ones."""

import hashlib
from collections.abc import Mapping
from functools import partial
from typing import NamedTuple

import numpy as np
import pandas as pd

from clustering.foundation.cores import on_each_core
from clustering.foundation.errors import InputError
from clustering.foundation.fingerprint import fingerprint
from clustering.foundation.progress import Progress, quiet
from fsl.benchmarks.benchmark import SPLITS, Benchmark, ImageArray, Split
from fsl.benchmarks.images import read_split
from fsl.benchmarks.layouts import EncodedPictures
from fsl.benchmarks.listed import ListedBenchmark

BLOCK = 32  # pictures that a core checks at once


class Survey(NamedTuple):
    """Result of the check of a benchmark.

    Attributes:
        layout: layout of its files.
        pictures: all pictures, with the columns `split`, `class_name`, `name`, `digest` (hash of the bytes) and
            `problem` (why it cannot be read or decoded; empty if it can).
        problems: of each split, missing classes, and missing and superfluous pictures, one line each.
        expected: of each split, the expected numbers of classes and pictures; 0 if unknown.
        fingerprint: hash of all pictures and their classes, independent of file names.
    """

    layout: str
    pictures: pd.DataFrame
    problems: Mapping[Split, list[str]]
    expected: Mapping[Split, tuple[int, int]]
    fingerprint: str

    @property
    def sound(self) -> bool:
        """Whether every split is complete and correct; duplicates are allowed, as some benchmarks contain them."""
        return not any(self.problems.values()) and not self.pictures["problem"].any()

    def twins(self) -> list[pd.DataFrame]:
        """Groups of pictures with other names and identical bytes."""
        again = self.pictures[self.pictures["digest"].duplicated(keep=False) & (self.pictures["digest"] != "")]
        return [group for _, group in again.groupby("digest", sort=False) if group["name"].nunique() > 1]


def survey(benchmark: Benchmark, progress: Progress = quiet) -> Survey:
    """Read and decode every picture, on all cores. Nothing is written.

    Raises:
        InputError: no file of the benchmark is present.
    """
    listed = benchmark if isinstance(benchmark, ListedBenchmark) else None
    layout = ", ".join(dict.fromkeys(place.layout for place in listed.places())) if listed else benchmark.name
    rows: list[tuple[str, ...]] = []
    problems: dict[Split, list[str]] = {split: [] for split in SPLITS}
    for split in SPLITS:
        images: ImageArray
        try:
            if listed:
                listing = listed.listing(split)
                images, labels, classes = listing
                problems[split] = listed.problems(split, listing)
            else:
                images, labels, classes = read_split(benchmark, split, progress)
        except InputError as error:
            if not listed:
                raise
            problems[split] = [str(error)]
            continue  # one archive is damaged; the others are still checked
        names = images.names if isinstance(images, EncodedPictures) else [f"{split} {n}" for n in range(len(labels))]
        with progress.track(f"looking at {benchmark.name}, {split}", len(labels)) as advance:
            blocks = (range(start, min(start + BLOCK, len(labels))) for start in range(0, len(labels), BLOCK))
            for block, looked in on_each_core(partial(_look, images), blocks):
                rows += [(split, classes[labels[n]], names[n], *seen) for n, seen in zip(block, looked, strict=True)]
                advance(len(block))
    pictures = pd.DataFrame(rows, columns=["split", "class_name", "name", "digest", "problem"])
    lines = sorted(f"{split} {class_name} {digest}" for split, class_name, _, digest, _ in rows if digest)
    expected = {split: listed.counts(split) if listed else (0, 0) for split in SPLITS}
    return Survey(layout, pictures, problems, expected, fingerprint(benchmark.name, *lines))


def _look(images: ImageArray, block: range) -> list[tuple[str, str]]:
    """The digest and the defect of each picture of a block."""
    looked = []
    for index in block:
        digest, problem = "", ""
        try:
            encoded = images if isinstance(images, EncodedPictures) else None
            stored = encoded.read(index) if encoded else images[index : index + 1]
            data = stored if isinstance(stored, bytes) else np.ascontiguousarray(stored).data
            digest = hashlib.sha256(data).hexdigest()
            if encoded:
                encoded.decoded(index, stored)
        except InputError as error:
            problem = str(error)
        looked.append((digest, problem))
    return looked
