"""A user's own pictures as a benchmark, given as one folder per class or as lists."""

import os
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Literal

import numpy as np

from clustering.foundation.errors import InputError
from clustering.foundation.fingerprint import Fingerprint
from clustering.foundation.parameters import Above, AtLeast, Within, validate
from clustering.foundation.streams import stream
from fsl.benchmarks.augmentation import Augmentation
from fsl.benchmarks.benchmark import SPLITS, Decoded, Split
from fsl.benchmarks.encoded import EncodedPictures, Fit, read_bytes
from fsl.benchmarks.listed import relative, size_of
from fsl.benchmarks.split_lists import FILES, find_lists, picture_folder, pictures_under, read_list

RECIPE = 1  # version; increased if the same files give other images
FEWEST = 2  # minimum number of classes of a split
Classes = Mapping[str, list[str]]
LAYOUT = (
    "one folder of pictures per class; or train/, val/ and test/ with such folders; or train.csv, val.csv and test.csv "
    "with a file and its class on each line"
)


@dataclass(frozen=True)
class Folder:
    """Your own pictures, of any size and format, converted to RGB and rotated according to their EXIF data.

    The base, validation and novel classes are given by the folders train, val and test, or by the lists train.csv,
    val.csv and test.csv; otherwise they are drawn at random. A class may only be in one split.

    Attributes:
        root: the folder. Its path is not part of a run's identity, but the names and sizes of its files are.
        size: side in pixels to which pictures are resized.
        fit: "crop" to the central square, or "squeeze".
        split: "given" by folders or lists, "drawn" at random, or "auto": given if possible, else drawn.
        novel, validation: fractions of the classes that are drawn, at least two classes each.
        seed: seed of the random split.
    """

    name: ClassVar[str] = "folder"
    channels: ClassVar[int] = 3
    mean: ClassVar[tuple[float, ...]] = (0.485, 0.456, 0.406)
    std: ClassVar[tuple[float, ...]] = (0.229, 0.224, 0.225)
    augmentation: ClassVar[Augmentation] = Augmentation(
        crop=0.08, flip=True, brightness=0.4, contrast=0.4, saturation=0.4
    )

    root: str | None = None
    size: Annotated[int, AtLeast(8)] = 84
    fit: Fit = "crop"
    split: Literal["auto", "given", "drawn"] = "auto"
    novel: Annotated[float, Above(0), Within(0, 1)] = 0.2
    validation: Annotated[float, Above(0), Within(0, 1)] = 0.16
    seed: int = 0

    def __post_init__(self) -> None:
        validate(self)

    def source(self) -> str:
        """Identity of the files: the lists, and the names and sizes of the pictures.

        Raises:
            InputError: see `read`.
        """
        folder = self._folder()
        digest = Fingerprint("folder", RECIPE)
        for split, classes in self._classes().items():
            for name, files in classes.items():
                for file in files:
                    digest.add(f"{split} {name} {relative(file, folder)} {size_of(file)}")
        return str(digest)

    def read(self, split: Split) -> Decoded:
        """The pictures of a split, (N, 3, size, size), sorted by class and name. Each is decoded on access.

        Raises:
            InputError: there are no pictures, too few classes, a missing split, or a class in two splits.
        """
        classes = self._classes()[split]
        files = [file for name in classes for file in classes[name]]
        pictures = EncodedPictures(files, lambda index: read_bytes(files[index]), self.size, self.fit, upright=True)
        labels = np.repeat(np.arange(len(classes)), [len(classes[name]) for name in classes])
        return Decoded(pictures, labels, tuple(classes))

    def division(self) -> str:
        """The numbers of base, validation and novel classes and the options that change them, for messages.

        Raises:
            InputError: see `read`.
        """
        counts = {split: len(classes) for split, classes in self._classes().items()}
        total = sum(counts.values())
        listed = ", ".join(f"{counts[split]} {split}" for split in SPLITS)
        if self.split == "given":
            return f"The {total} classes of benchmark folder are stored as {listed}; move folders, or use split=drawn"
        return (
            f"The {total} classes of benchmark folder are divided into {listed} (novel={self.novel:g} "
            f"validation={self.validation:g}); set novel= and validation= to change this"
        )

    def _folder(self) -> Path:
        if not self.root:
            raise InputError(f"benchmark folder: no folder given; pass root=FOLDER with {LAYOUT}")
        folder = Path(self.root).expanduser()
        if not folder.is_dir():
            raise InputError(f"benchmark folder: {folder} is not a folder; pass root=FOLDER with {LAYOUT}")
        return folder

    def _classes(self) -> dict[Split, Classes]:
        """The files of each class of each split."""
        folder = self._folder()
        classes = _by_lists(folder) or _by_folders(folder)
        if self.split == "given" and not classes:
            raise InputError(f"benchmark folder: {folder} has no train/ and test/, and no train.csv; use split=drawn")
        if classes and self.split != "drawn":
            return _disjoint(folder, classes)
        pooled: defaultdict[str, list[str]] = defaultdict(list)
        for part in classes.values() if classes else [_by_class(folder, folder)]:
            for name, files in part.items():
                pooled[name] += files
        return self._drawn(folder, pooled)

    def _drawn(self, folder: Path, classes: Classes) -> dict[Split, Classes]:
        names = sorted(classes)
        shares = [max(FEWEST, round(share * len(names))) for share in (self.novel, self.validation)]
        if len(names) - sum(shares) < FEWEST:
            raise InputError(
                f"benchmark folder: {folder} has {len(names)} classes, of which {shares[0]} would be novel and "
                f"{shares[1]} validation, and at least {FEWEST} base classes must remain; add classes, or lower "
                f"novel= and validation=. It should contain {LAYOUT}. For few classes, use transduce classify, which "
                "needs no training"
            )
        order = stream(self.seed, "split of a folder").permutation(len(names))
        novel, validation, base = np.split(order, np.cumsum(shares))
        drawn = dict(zip(SPLITS, (base, validation, novel), strict=True))
        return {split: {names[i]: classes[names[i]] for i in sorted(rows)} for split, rows in drawn.items()}


def _by_class(folder: Path, below: Path) -> Classes:
    """Pictures by their folder directly below `below`."""
    by_class: defaultdict[str, list[str]] = defaultdict(list)
    for file in pictures_under(below):
        name, _, inside = relative(file, below).partition(os.sep)
        if not inside:
            raise InputError(
                f"benchmark folder: {file} is not in the folder of a class; move it into one. {folder} should contain "
                f"{LAYOUT}"
            )
        by_class[name].append(file)
    return {name: by_class[name] for name in sorted(by_class)}


def _by_folders(folder: Path) -> dict[Split, Classes]:
    """Classes by split according to the folders of the splits; empty if there are none."""
    children = {child.name.lower(): child for child in folder.iterdir() if child.is_dir()}
    folders = {split: [children[word] for word in FILES[split] if word in children] for split in SPLITS}
    if not (folders["base"] and folders["novel"]):
        return {}
    if not folders["validation"]:
        raise InputError(
            f"benchmark folder: {folder} has {folders['base'][0].name}/ and {folders['novel'][0].name}/, but no val/; "
            "add it, or use split=drawn"
        )
    return {split: _merged(_by_class(folder, below) for below in folders[split]) for split in SPLITS}


def _by_lists(folder: Path) -> dict[Split, Classes]:
    """Classes by split according to the lists; empty if there are none."""
    lists = {split: find_lists(folder, split) for split in SPLITS}
    if not any(lists.values()):
        return {}
    for split, paths in lists.items():
        if not paths:
            raise InputError(f"benchmark folder: {folder} has lists, but no {FILES[split][0]}.csv; add it")
    splits: dict[Split, Classes] = {}
    for split, paths in lists.items():
        classes: defaultdict[str, list[str]] = defaultdict(list)
        for path in paths:
            rows = read_list(path)
            place = picture_folder(folder, rows)
            for row in rows:
                classes[row.label].append(os.path.join(place, row.file))
        splits[split] = {name: classes[name] for name in sorted(classes)}
    return splits


def _merged(parts: Iterable[Classes]) -> Classes:
    merged: defaultdict[str, list[str]] = defaultdict(list)
    for part in parts:
        for name, files in part.items():
            merged[name] += files
    return {name: merged[name] for name in sorted(merged)}


def _disjoint(folder: Path, classes: dict[Split, Classes]) -> dict[Split, Classes]:
    """Check that every split has classes and that no class is in two splits."""
    owner: dict[str, Split] = {}
    for split, names in classes.items():
        if not names:
            raise InputError(f"benchmark folder: {folder} has no pictures of {split} classes; add some")
        for name in names:
            if name in owner:
                raise InputError(
                    f"benchmark folder: {folder} has class {name!r} among {owner[name]} and among {split} classes; "
                    "novel classes must differ from the network's training classes: keep it in one split, or use "
                    "split=drawn"
                )
            owner[name] = split
    return classes
