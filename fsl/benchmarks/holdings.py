"""File layouts of benchmarks: archives, pickle caches, lists and folders. Pictures are located, but not decoded."""

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clustering.files.arrays import UNREADABLE, read_arrays
from clustering.foundation.errors import InputError
from fsl.benchmarks.benchmark import SPLITS, Split
from fsl.benchmarks.catalogue import Catalogue
from fsl.benchmarks.encoded import read_bytes
from fsl.benchmarks.split_lists import (
    FILES,
    ROLES,
    Role,
    find_lists,
    picture_folder,
    pictures_under,
    read_list,
    role_of,
)
from fsl.weights.pickles import PICKLES, read_pickle

# parts of names of files to skip: pictures of base classes that some authors hold out, and lists of labelled pictures
LEFT_OUT = ("train_phase_val", "train_phase_test", "labelsplit", "trainval")
SHARD = re.compile(r"[a-z]+(-\d+)?")
# train_7_28_36847.png: the split, the super-class, the class and the number of a picture of tiered-ImageNet
NUMBERED = re.compile(r"(train|val|test)_\d+_(\d+)_\d+")


@dataclass(frozen=True)
class Holding:
    """The pictures of one file or folder.

    Attributes:
        names: names of the N pictures.
        classes: class of each picture, by the authors' name, otherwise a number or word from the file.
        read: thread-safe function that returns the bytes or the (H, W, 3) pixels of the picture at an index.
    """

    names: Sequence[str]
    classes: Sequence[str]
    read: Callable[[int], bytes | NDArray[np.uint8]]


@dataclass(frozen=True)
class Place:
    """A location of pictures, determined without opening files.

    Attributes:
        layout: description of the layout.
        split: the split by the file's name; None if it follows from the classes.
        open: function that returns the pictures.
        files: archives and lists, identified by their content.
        pictures: picture files, identified by their names and sizes.
        role: support or query, if the authors divide the novel pictures.
    """

    layout: str
    split: Split | None
    open: Callable[[], Holding]
    files: tuple[Path, ...] = ()
    pictures: tuple[str, ...] = ()
    role: Role | None = None


def find_places(folder: Path, catalogue: Catalogue) -> list[Place]:
    """Locate a benchmark's pictures in a folder, in the first of the four layouts that is present."""
    return (
        [
            Place("npz shards", split, partial(_shard, path), (path,))
            for path, split in _by_split(folder, (".npz",))
            if SHARD.fullmatch(path.stem)
        ]
        or [
            Place("pickle cache", split, partial(_cache, *files), files)
            for path, split in _by_split(folder, (*PICKLES, ".npz"))
            if not path.stem.endswith("_labels") and (files := _with_labels(path))
        ]
        or [_listed(folder, path, split, catalogue) for split in SPLITS for path in find_lists(folder, split)]
        or _folder(folder, catalogue)
    )


def _by_split(folder: Path, suffixes: Sequence[str]) -> list[tuple[Path, Split]]:
    """Files with these suffixes and a split in their name, sorted by split and number."""
    files = []
    for path in folder.iterdir():
        if path.suffix not in suffixes or any(word in path.stem for word in LEFT_OUT):
            continue
        words = re.findall(r"[a-z]+", path.stem.lower())
        split = next((split for word in reversed(words) for split in SPLITS if word in FILES[split]), None)
        if split is not None:
            files.append((path, split))
    return sorted(files, key=lambda item: (SPLITS.index(item[1]), *map(int, re.findall(r"\d+", item[0].stem))))


def _damaged(path: Path, error: BaseException) -> InputError:
    if isinstance(error, InputError):
        return error
    reason = f"it has no {error}" if isinstance(error, KeyError) else str(error)
    return InputError(f"{path}: damaged, or in another format ({reason}); download it again")


def _shard(path: Path) -> Holding:
    """Pictures of an archive with arrays `blob` (the concatenated files), `offset` (n + 1, the start of each file),
    `label` (n, index into `classes`) and `image_id` (n, the number in a picture's name)."""
    try:
        file = read_arrays(path)
        blob, offset = file["blob"], file["offset"].astype(np.int64)
        classes = file["classes"][file["label"]].tolist()
        ids = file["image_id"].tolist()
    except UNREADABLE as error:
        raise _damaged(path, error) from error
    if len(offset) != len(ids) + 1 or len(classes) != len(ids) or (np.diff(offset, append=len(blob)) < 0).any():
        raise InputError(f"{path}: its pictures, labels and names are inconsistent; download it again")
    names = [f"{path}: {name}{number:08d}.jpg" for name, number in zip(classes, ids, strict=True)]
    return Holding(names, classes, lambda index: blob[offset[index] : offset[index + 1]].tobytes())


def _with_labels(path: Path) -> tuple[Path, ...]:
    """A cache, and the file of its labels if they are in a separate file."""
    stem = re.sub(r"_images(_png)?$", "", path.stem)
    if stem == path.stem:
        return (path,) if path.suffix != ".npz" else ()
    labels = [path.with_name(f"{stem}_labels{suffix}") for suffix in PICKLES]
    return (path, next((file for file in labels if file.is_file()), labels[0]))


def _cache(path: Path, labels: Path | None = None) -> Holding:
    """Pictures of a cache in one of three common forms.

    The first is a dict of `image_data` (N, H, W, 3) and `class_dict`, the rows of each class (mini-ImageNet). The
    second is a dict of `data`, `labels` and sometimes `catname2label` (mini-ImageNet, CIFAR-FS, FC100). The third has
    the labels in a separate file, and the pictures in a list of PNG files or in an archive with `images`
    (tiered-ImageNet); OpenCV read the latter, so their channels are in the order blue, green, red.
    """
    try:
        content: Any = read_arrays(path) if path.suffix == ".npz" else read_pickle(path)
        if labels is not None:
            annotations = read_pickle(labels)
            classes = _names(
                annotations.get("label_specific", annotations.get("labels")), annotations.get("label_specific_str")
            )
            images, turned = (content["images"], True) if isinstance(content, Mapping) else (content, False)
        elif "image_data" in content:
            images, turned, classes = content["image_data"], False, [""] * len(content["image_data"])
            for name, rows in content["class_dict"].items():
                for row in rows:
                    classes[row] = str(name)
        else:
            images, turned = content["data"], False
            annotations = content.get("catname2label")
            classes = _names(
                content["labels"], {int(value): name for name, value in annotations.items()} if annotations else None
            )
        if len(images) != len(classes) or "" in classes:
            raise ValueError(f"{len(images)} pictures, {sum(name != '' for name in classes)} labels")
        pixels = isinstance(images, np.ndarray)
        if pixels and (images.ndim != 4 or images.shape[3] != 3 or images.dtype != np.uint8):
            raise ValueError(f"images of {images.dtype} {images.shape}, not of uint8 (N, H, W, 3)")
    except (*UNREADABLE, AttributeError) as error:
        raise _damaged(path, error) from error

    def read(index: int) -> bytes | NDArray[np.uint8]:
        if pixels:
            return np.ascontiguousarray(images[index][..., ::-1]) if turned else images[index]
        stored = images[index]
        if isinstance(stored, str):  # bytes of Python 2
            return stored.encode("latin1")
        return stored.tobytes() if isinstance(stored, np.ndarray) else bytes(stored)

    names = [f"{path}: picture {index} of {name}" for index, name in enumerate(classes)]
    return Holding(names, classes, read)


def _names(labels: Any, words: Any) -> list[str]:
    """The class of each picture: the name of its label if every label has a name, otherwise the label itself."""
    numbers = np.asarray(labels)
    if numbers.dtype.kind == "i" and numbers.size and numbers.min() < 0:
        raise ValueError(f"a label is {numbers.min()}")
    if words is not None and numbers.dtype.kind in "iu" and len(set(map(str, words))) == len(words):
        return [_text(words[int(number)]) for number in numbers]
    return [_text(label) for label in numbers.tolist()]


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _listed(folder: Path, path: Path, split: Split, catalogue: Catalogue) -> Place:
    """The pictures of a list. The list may number the classes if the folders have the names of the classes."""
    rows = read_list(path)
    place = picture_folder(folder, rows)
    files = [os.path.join(place, row.file) for row in rows]
    classes = [
        row.label if catalogue.split_of(row.label) else _named(file, catalogue) or row.label
        for row, file in zip(rows, files, strict=True)
    ]
    return replace(_of_files("lists of pictures", split, files, classes, path), role=role_of(path))


def _of_files(layout: str, split: Split | None, files: Sequence[str], classes: Sequence[str], *lists: Path) -> Place:
    holding = Holding(files, classes, lambda index: read_bytes(files[index]))
    return Place(layout, split, lambda: holding, lists, tuple(files))


def _folder(folder: Path, catalogue: Catalogue) -> list[Place]:
    """Pictures in folders named after classes, or with the class in their own name (n0153282900000005.jpg,
    train_7_28_36847.png).

    The split of a class that is not in the authors' lists is the name of the folder directly below the root. If there
    are folders named repr or query, support comes before query, and test/ contains the same pictures again.
    """
    members: dict[tuple[Split | None, Role | None], tuple[list[str], list[str]]] = {}
    below = len(f"{folder}{os.sep}")
    files = [(file, file[below:].partition(os.sep)[0].lower()) for file in pictures_under(folder)]
    divided = len({ROLES.get(word) for _, word in files} - {None}) == 2
    for file, top in files:
        role = ROLES.get(top)
        if divided and role is None and top in FILES["novel"]:
            continue
        name, split = _named(file, catalogue), None
        if not name:
            path = Path(file)
            numbered = NUMBERED.fullmatch(path.stem)
            place = (path.relative_to(folder).parts[0], path.parent.name)
            word, name = (numbered[1], numbered[2]) if numbered else place
            split = next((split for split in SPLITS if word.lower() in FILES[split]), None)
        of_split = members.setdefault((split, role), ([], []))
        of_split[0].append(file)
        of_split[1].append(name)
    roles: tuple[Role | None, ...] = (None, "support", "query")
    return [
        replace(_of_files("folders of pictures", split, *members[split, role]), role=role)
        for split in (None, *SPLITS)
        for role in roles
        if (split, role) in members
    ]


def _named(file: str, catalogue: Catalogue) -> str:
    """The class of a picture by its folder or by the beginning of its name, if it is in the authors' lists."""
    parent, name = ["", "", *file.rsplit(os.sep, 2)][-2:]
    return next((known for known in (parent, name[:9]) if catalogue.split_of(known)), "")
