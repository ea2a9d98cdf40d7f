"""Check of all pictures of a benchmark for missing, superfluous, broken and duplicate ones."""

import hashlib
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from clustering.foundation.cores import on_each_core
from clustering.foundation.errors import InputError
from clustering.foundation.fingerprint import Fingerprint
from fsl.benchmarks.benchmark import SPLITS, Benchmark, Split
from fsl.benchmarks.catalogue import known_copy
from fsl.benchmarks.encoded import EncodedPictures
from fsl.benchmarks.images import read_split
from fsl.benchmarks.listed import ListedBenchmark, Listing
from fsl.progress import Progress, quiet

BLOCK = 32  # pictures looked at by a core in one go
NAMED = 5  # of pictures that are missing of a class, or too many, so many are named


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
        fingerprint: of every picture with its class, whatever the files are called.
        copy: which copy this is, in words; empty where that is not known.
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
    same: defaultdict[bytes, list[Spot]] = defaultdict(list)
    splits = []
    for split in SPLITS:
        found, expected, broken = _listing(benchmark, split, progress)
        absent: list[int] = []
        with progress.track(f"looking at {benchmark.name}, {split}", len(found.labels)) as advance:
            starts = range(0, len(found.labels), BLOCK)
            for start, looked in on_each_core(partial(_look, found), starts):
                for index, (digest, problem, is_there) in enumerate(looked, start):
                    if not is_there:
                        absent.append(index)
                    elif problem:
                        broken.append(problem)
                    if digest:
                        class_name = found.class_names[found.labels[index]]
                        same[digest].append(Spot(split, class_name, found.pictures.names[index]))
                advance(len(looked))
        splits.append(_split_survey(split, found, expected, broken, absent))
    fingerprint = Fingerprint(benchmark.name)
    for line in sorted(f"{spot.split} {spot.class_name} {key.hex()}" for key, spots in same.items() for spot in spots):
        fingerprint.add(line)
    twins = tuple(tuple(spots) for spots in same.values() if len({spot.name for spot in spots}) > 1)
    return Survey(layout, tuple(splits), twins, str(fingerprint), known_copy(benchmark.name, str(fingerprint)))


class _Expected(NamedTuple):
    """What there should be of a split; 0 and () where nobody says.

    Attributes:
        classes, pictures: how many in all.
        each: pictures of a class.
        names: of the classes.
        called: the names of a class's pictures, by the class; empty where they have none of their own.
    """

    classes: int = 0
    pictures: int = 0
    each: int = 0
    names: tuple[str, ...] = ()
    called: Callable[[str], frozenset[str]] = frozenset


def _listing(benchmark: Benchmark, split: Split, progress: Progress) -> tuple[Listing, _Expected, list[str]]:
    """What is there of a split, what should be, and what could not be read; a benchmark that does not say is as it
    reads."""
    if isinstance(benchmark, ListedBenchmark):
        facts = benchmark.catalogue
        expected = _Expected(facts.counts[split], facts.images[split], facts.each, facts.classes[split], facts.pictures)
        try:
            found = benchmark.listing(split)
            return found, expected, list(found.faults)
        except InputError as error:  # one archive is damaged, and what the others hold is to be seen all the same
            nothing = EncodedPictures([], lambda index: b"", benchmark.size)
            expected = expected._replace(names=(), each=0)
            return Listing(nothing, np.empty(0, np.int64), (), {}), expected, [str(error)]
    images, labels, names = read_split(benchmark, split, progress)
    if isinstance(images, EncodedPictures):
        return Listing(images, labels, names, {}), _Expected(), []
    pictures = EncodedPictures(
        [f"picture {index} of {split}" for index in range(len(labels))],
        lambda index: np.repeat(images[index : index + 1][0].transpose(1, 2, 0), 3 // benchmark.channels, axis=2),
        benchmark.size,
    )
    return Listing(pictures, labels, names, {}), _Expected(), []


def _look(found: Listing, start: int) -> list[tuple[bytes, str, bool]]:
    """Of each picture of a block its digest, what is wrong with it, and whether it is there at all."""
    looked = []
    for index in range(start, min(start + BLOCK, len(found.labels))):
        digest, problem, is_there = b"", "", True
        try:
            stored = found.pictures.stored(index)
            digest = hashlib.sha256(stored if isinstance(stored, bytes) else np.ascontiguousarray(stored).data).digest()
            found.pictures.decoded(index, stored)
        except InputError as error:
            problem, is_there = str(error), not isinstance(error.__cause__, FileNotFoundError)
        looked.append((digest, problem, is_there))
    return looked


def _split_survey(
    split: Split, found: Listing, expected: _Expected, broken: Sequence[str], absent: Sequence[int]
) -> SplitSurvey:
    there, lacking = _by_class(found, absent)
    pictures = len(found.labels) - len(absent)
    missing = [f"class {name}" for name in expected.names if name not in there and name not in lacking]
    extra = [f"{_count(names)} of {name or 'no class'}{_few(names)}" for name, names in sorted(found.strangers.items())]
    if not missing and len(there.keys() | lacking) < expected.classes:
        missing.append(f"{expected.classes - len(there.keys() | lacking)} classes")
    if expected.classes and len(there) > expected.classes:
        extra.append(f"{len(there) - expected.classes} classes")
    for name in dict.fromkeys((*there, *lacking)):
        names, called = there.get(name, []), expected.called(name)
        named = not called.isdisjoint(names)  # else the files are called in another way
        lacks = {*lacking.get(name, ()), *(called.difference(names) if named else ())}
        more = [other for other in names if other not in called] if named else []
        short, much = max(len(lacks), expected.each - len(names)), max(len(more), len(names) - expected.each)
        if short > 0:
            of = f"{short} of {expected.each}" if expected.each else f"{short}"
            missing.append(f"{of} pictures of class {name}{_few(lacks)}")
        if much > 0 and expected.each:
            extra.append(f"{much} pictures of class {name} ({len(names)}, not {expected.each}){_few(more)}")
    if not (missing or extra) and expected.pictures and pictures != expected.pictures:
        differ = expected.pictures - pictures
        (missing if differ > 0 else extra).append(f"{abs(differ):,} pictures")
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


def _by_class(found: Listing, absent: Sequence[int]) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """Short names of the pictures that are there, and of those that a list names and that are not, by class."""
    there: defaultdict[str, list[str]] = defaultdict(list)
    lacking: defaultdict[str, list[str]] = defaultdict(list)
    gone = set(absent)
    for index, (label, name) in enumerate(zip(found.labels.tolist(), found.pictures.names, strict=True)):
        (lacking if index in gone else there)[found.class_names[label]].append(_file(name))
    return there, lacking


def _file(name: str) -> str:
    """The end of a picture's name: what is behind the file that holds many, or the name of its own file."""
    return name.rpartition(": ")[2] if ": " in name else name.replace("\\", "/").rpartition("/")[2]


def _count(names: Collection[str]) -> str:
    return f"{len(names):,} picture{'s' if len(names) != 1 else ''}"


def _few(names: Collection[str]) -> str:
    """The first of them, behind a colon."""
    first = [_file(name) for name in sorted(names)[:NAMED]]
    more = f" and {len(names) - NAMED:,} more" if len(names) > NAMED else ""
    return f": {', '.join(first)}{more}" if first else ""
