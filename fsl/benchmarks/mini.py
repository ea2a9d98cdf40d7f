"""mini-ImageNet: 100 classes of ImageNet with 600 pictures each, in the split of Ravi and Larochelle (ICLR 2017)."""

import re
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from clustering.errors import InputError
from clustering.parameters import validate
from fsl.augmentation import Augmentation
from fsl.benchmarks.benchmark import Decoded, Split, fingerprint
from fsl.benchmarks.encoded import EncodedPictures, of_files

RECIPE = 1  # raised whenever the same files give other images
PER_CLASS = 600
SUFFIXES = (".jpg", ".jpeg", ".JPEG", ".JPG", ".png")
SHARDS: dict[Split, str] = {"base": "base-*.npz", "validation": "val.npz", "novel": "novel.npz"}
UNREADABLE = (OSError, EOFError, KeyError, TypeError, ValueError, IndexError, zipfile.BadZipFile, zlib.error)
WANTED = "the shards base-0.npz ..., val.npz and novel.npz, or a folder of pictures for each of the 100 classes"

# The synsets of ImageNet that the authors' lists train.csv, val.csv and test.csv name.
BASE = """
n01532829 n01558993 n01704323 n01749939 n01770081 n01843383 n01910747 n02074367 n02089867 n02091831 n02101006 n02105505
n02108089 n02108551 n02108915 n02111277 n02113712 n02120079 n02165456 n02457408 n02606052 n02687172 n02747177 n02795169
n02823428 n02966193 n03017168 n03047690 n03062245 n03207743 n03220513 n03337140 n03347037 n03400231 n03476684 n03527444
n03676483 n03838899 n03854065 n03888605 n03908618 n03924679 n03998194 n04067472 n04243546 n04251144 n04258138 n04275548
n04296562 n04389033 n04435653 n04443257 n04509417 n04515003 n04596742 n04604644 n04612504 n06794110 n07584110 n07697537
n07747607 n09246464 n13054560 n13133613
"""
VALIDATION = """
n01855672 n02091244 n02114548 n02138441 n02174001 n02950826 n02971356 n02981792 n03075370 n03417042 n03535780 n03584254
n03770439 n03773504 n03980874 n09256479
"""
NOVEL = """
n01930112 n01981276 n02099601 n02110063 n02110341 n02116738 n02129165 n02219486 n02443484 n02871525 n03127925 n03146219
n03272010 n03544143 n03775546 n04146614 n04149813 n04418357 n04522168 n07613480
"""
CLASSES: dict[Split, tuple[str, ...]] = {
    "base": tuple(BASE.split()),
    "validation": tuple(VALIDATION.split()),
    "novel": tuple(NOVEL.split()),
}


@dataclass(frozen=True)
class MiniImageNet:
    """mini-ImageNet: 64 base, 16 validation and 20 novel classes of 600 pictures, 84 x 84 RGB.

    A network is tested on whole pictures as they are stored, normalised with ImageNet's mean and deviation. (The
    papers scale a picture to 96 pixels and cut out its middle 84.)

    Attributes:
        root: folder with base-0.npz ..., val.npz and novel.npz, or with the pictures: in folders named by synset
            (n01532829/*.jpg, at any depth), or named by synset themselves (n0153282900000005.jpg).
    """

    root: str | None = None

    name: ClassVar[str] = "mini"
    channels: ClassVar[int] = 3
    size: ClassVar[int] = 84
    mean: ClassVar[tuple[float, ...]] = (0.485, 0.456, 0.406)
    std: ClassVar[tuple[float, ...]] = (0.229, 0.224, 0.225)
    augmentation: ClassVar[Augmentation] = Augmentation(
        crop=0.08, flip=True, brightness=0.4, contrast=0.4, saturation=0.4
    )

    def __post_init__(self) -> None:
        validate(self)

    def source(self) -> str:
        """Identity of the files: of the shards' bytes, or of the pictures' names and sizes."""
        folder = _folder(self.root)
        shards = [path for split in SHARDS for path in _shards(folder, split)]
        if shards:
            return fingerprint("mini", RECIPE, *(path.read_bytes() for path in shards))
        found = (path for paths in _pictures(folder).values() for path in paths)
        return fingerprint("mini", RECIPE, *(f"{path.relative_to(folder)} {path.stat().st_size}" for path in found))

    def read(self, split: Split) -> Decoded:
        """The pictures of a split, (N, 3, 84, 84), ordered by class and name; each is decoded when it is asked for.

        Raises:
            InputError: for files that are missing, damaged or of other classes than the split's.
        """
        folder = _folder(self.root)
        shards = _shards(folder, split)
        if shards:
            pictures, labels = _encoded(shards, split, self.size)
        else:
            found = _pictures(folder)
            pictures = of_files([path for name in CLASSES[split] for path in found.get(name, [])], self.size)
            labels = np.repeat(np.arange(len(CLASSES[split])), [len(found.get(name, [])) for name in CLASSES[split]])
        counts = np.bincount(labels, minlength=len(CLASSES[split]))
        short = np.flatnonzero(counts != PER_CLASS)
        if len(short):
            raise InputError(
                f"benchmark mini: {folder} holds {counts[short[0]]} pictures of the {split} class "
                f"{CLASSES[split][short[0]]} ({len(short)} classes are not whole), not {PER_CLASS}; fetch them again"
            )
        return Decoded(pictures, labels, CLASSES[split])


def _folder(root: str | None) -> Path:
    if root is None:
        raise InputError(f"benchmark mini: no folder given; pass root=FOLDER with {WANTED}")
    folder = Path(root).expanduser()
    if not folder.is_dir():
        raise InputError(f"benchmark mini: {folder} is no folder; pass root=FOLDER with {WANTED}")
    return folder


def _shards(folder: Path, split: Split) -> list[Path]:
    """The archives of a split, in the order of their numbers; none where the folder holds no archive at all."""
    found = sorted(folder.glob(SHARDS[split]), key=lambda path: [int(n) for n in re.findall(r"\d+", path.stem)])
    if not found and any(path for other in SHARDS.values() for path in folder.glob(other)):
        raise InputError(f"benchmark mini: {folder} holds no {SHARDS[split]}; pass root=FOLDER with {WANTED}")
    return found


def _encoded(shards: Sequence[Path], split: Split, size: int) -> tuple[EncodedPictures, NDArray[np.int64]]:
    """The pictures of the archives, and their labels.

    An archive holds `blob`, the files one after the other, `offset` (n + 1), where each begins, `label` (n) into
    `classes`, and `image_id` (n), the number in a picture's name.
    """
    blobs: list[NDArray[np.uint8]] = []
    names: list[str] = []
    labels: list[int] = []
    places: list[tuple[int, int, int]] = []
    for number, path in enumerate(shards):
        try:
            with path.open("rb") as stream, np.load(stream) as file:  # np.load leaves a bad file open
                blob, offset = file["blob"], file["offset"].astype(np.int64)
                synsets = file["classes"][file["label"]].tolist()
                ids = file["image_id"].tolist()
        except UNREADABLE as error:
            raise InputError(f"{path}: damaged, or no shard of mini-ImageNet ({error}); fetch it again") from error
        if len(offset) != len(ids) + 1 or len(synsets) != len(ids) or (np.diff(offset, append=len(blob)) < 0).any():
            raise InputError(f"{path}: its pictures, labels and names do not fit each other; fetch it again")
        others = sorted(set(synsets) - set(CLASSES[split]))
        if others:
            raise InputError(
                f"{path}: holds {others[0]}, which is no {split} class of Ravi and Larochelle's split; "
                "give the files of that split"
            )
        blobs.append(blob)
        names += [f"{path}: {synset}{identity:08d}.jpg" for synset, identity in zip(synsets, ids, strict=True)]
        labels += [CLASSES[split].index(synset) for synset in synsets]
        places += [(number, *span) for span in zip(offset[:-1].tolist(), offset[1:].tolist(), strict=True)]

    order = np.argsort(labels, kind="stable")
    places = [places[i] for i in order]

    def read(index: int) -> bytes:
        number, start, stop = places[index]
        return blobs[number][start:stop].tobytes()

    return EncodedPictures([names[i] for i in order], read, size), np.array(labels, np.int64)[order]


def _pictures(folder: Path) -> dict[str, list[Path]]:
    """The pictures of each class under a folder, by name."""
    known = {name for names in CLASSES.values() for name in names}
    found: dict[str, list[Path]] = {}
    for path in folder.rglob("*"):
        if path.suffix in SUFFIXES:
            synset = path.parent.name if path.parent.name in known else path.name[:9]
            if synset in known:
                found.setdefault(synset, []).append(path)
    if not found:
        raise InputError(f"benchmark mini: {folder} holds nothing of mini-ImageNet; pass root=FOLDER with {WANTED}")
    return {name: sorted(found[name], key=lambda path: path.name) for name in sorted(found)}
