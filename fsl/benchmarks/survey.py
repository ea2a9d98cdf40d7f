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
        try:
            images, labels, classes = found = (
                listed.listing(split) if listed else read_split(benchmark, split, progress)
            )
        except InputError as error:
            if not listed:
                raise
            problems[split] = [str(error)]
            continue  # one archive is damaged; the others are still checked
        problems[split] = listed.problems(split, found) if listed else []
        names = images.names if isinstance(images, EncodedPictures) else [f"{split} {n}" for n in range(len(labels))]
        with progress.track(f"looking at {benchmark.name}, {split}", len(labels)) as advance:
            for n, looked in on_each_core(partial(_look, images), range(len(labels))):
                rows.append((split, classes[labels[n]], names[n], *looked))
                advance(1)
    pictures = pd.DataFrame(rows, columns=["split", "class_name", "name", "digest", "problem"])
    lines = sorted(f"{split} {class_name} {digest}" for split, class_name, _, digest, _ in rows if digest)
    expected = {split: listed.counts(split) if listed else (0, 0) for split in SPLITS}
    return Survey(layout, pictures, problems, expected, fingerprint(benchmark.name, *lines))


def _look(images: ImageArray, index: int) -> tuple[str, str]:
    """The digest and the defect of a picture."""
    encoded, digest = images if isinstance(images, EncodedPictures) else None, ""
    try:
        stored = encoded.read(index) if encoded else images[index : index + 1]
        digest = hashlib.sha256(stored if isinstance(stored, bytes) else np.ascontiguousarray(stored).data).hexdigest()
        if encoded:
            encoded.decoded(index, stored)
    except InputError as error:
        return digest, str(error)
    return digest, ""
