"""The layouts in which people have the pictures of benchmarks: archives, pickle caches, lists and folders.

Lists are CSV files as Ravi and Larochelle, SimpleShot and TIM write them. Pictures are decoded on demand.
"""

import itertools
import os
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from clustering.files.arrays import UNREADABLE, read_arrays
from clustering.files.pictures import Fit, is_picture, open_picture, pictures_under, squared
from clustering.files.regular import read_bytes
from clustering.files.words import csv_lines
from clustering.foundation.errors import InputError
from fsl.benchmarks.benchmark import SPLITS, Split
from fsl.benchmarks.pickles import PICKLES, read_pickle

FILES: dict[Split, tuple[str, ...]] = {
    "base": ("train", "base"),
    "validation": ("val", "valid", "validation"),
    "novel": ("test", "novel", "repr", "support", "query"),
}
# parts of names of files to skip: pictures of base classes that some authors hold out, and lists of labelled pictures
LEFT_OUT = ("train_phase_val", "train_phase_test", "labelsplit", "trainval")


Stored = bytes | NDArray[np.uint8]
"""A picture as a file has it: encoded (JPEG, PNG or others), or pixels (H, W, 3)."""


class Place(NamedTuple):
    """A location of pictures, determined without opening archives.

    Attributes:
        layout: description of the layout.
        split: the split by the file's name; None if it follows from the classes.
        open: function that returns a frame with the columns `picture` (its name), `class_name` (the authors', otherwise
            a number or word from the file), and `read` and `key`, a thread-safe function and its argument that give
            the picture as it is stored.
        files: archives and lists, identified by their content.
        pictures: picture files, identified by their names and sizes.
    """

    layout: str
    split: Split | None
    open: Callable[[], pd.DataFrame]
    files: tuple[Path, ...] = ()
    pictures: tuple[str, ...] = ()


def frame_of(
    pictures: Sequence[str], classes: Sequence[str], read: Callable[[Any], Stored], keys: Iterable[Any]
) -> pd.DataFrame:
    """The frame of pictures that one function reads, see `Place`."""
    return pd.DataFrame({"picture": pictures, "class_name": classes, "read": read, "key": keys}, dtype=object)


@dataclass(frozen=True)
class EncodedPictures:
    """Stored pictures as RGB squares.

    Attributes:
        names: names of the N pictures, for messages.
        read: thread-safe function that returns the stored picture at an index; it raises InputError if it cannot.
        size: side of the squares in pixels.
        fit: how other shapes are resized (Lanczos): "squeeze", as mini-ImageNet was made from ImageNet, or "crop" to
            the central square.
        upright: rotate pictures according to their EXIF data, which the papers' code ignores.
    """

    names: Sequence[str]
    read: Callable[[int], Stored]
    size: int
    fit: Fit = "squeeze"
    upright: bool = False

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """(N, 3, size, size)."""
        return len(self.names), 3, self.size, self.size

    def __getitem__(self, part: slice) -> NDArray[np.uint8]:
        """The pictures of a slice, decoded.

        Raises:
            InputError: a picture cannot be read or decoded; the message names it.
        """
        indices = range(*part.indices(len(self.names)))
        images = np.empty((len(indices), *self.shape[1:]), np.uint8)
        for row, index in enumerate(indices):
            images[row] = self.decoded(index, self.read(index)).transpose(2, 0, 1)
        return images

    def decoded(self, index: int, stored: Stored) -> NDArray[np.uint8]:
        """(size, size, 3) pixels of a picture, from the result of `read`; errors as above."""
        if isinstance(stored, np.ndarray) and stored.shape == (self.size, self.size, 3):
            return stored
        colour = open_picture(stored, self.names[index], least=self.size, upright=self.upright)
        return np.asarray(squared(colour, self.size, self.fit))


def folder_of(name: str, root: str | None, wanted: str) -> Path:
    """The folder of a benchmark's files.

    Raises:
        InputError: there is none; the message states what it must contain.
    """
    folder = Path(root or "").expanduser()
    if root and folder.is_dir():
        return folder
    problem = f"{folder} is not a folder" if root else "no folder given"
    raise InputError(f"benchmark {name}: {problem}; pass root=FOLDER with {wanted}")


def find_places(folder: Path, known: Mapping[str, Split]) -> list[Place]:
    """Locate a benchmark's pictures in a folder, in the first of the four layouts that is present.

    Args:
        folder: the folder.
        known: the split of each class in the authors' lists.
    """
    archives = _by_split(folder, (*PICKLES, ".npz"))
    places = [
        Place("npz shards", split, partial(_shard, path), (path,))
        for path, split in archives
        if path.suffix == ".npz" and re.fullmatch(r"[a-z]+(-\d+)?", path.stem)
    ] or [
        Place("pickle cache", split, partial(_cache, *files), files)
        for path, split in archives
        if not path.stem.endswith("_labels") and (files := _with_labels(path))
    ]
    if places:
        return places
    for split in SPLITS:
        for path, rows in read_lists(folder, split):
            # a list may number the classes if the folders have their names
            classes = [
                label if label in known else _named(file, known) or label
                for file, label in zip(rows["file"], rows["class_name"], strict=True)
            ]
            places.append(_of_files("lists of pictures", split, rows["file"].tolist(), classes, (path,)))
    return places or _folders(folder, known)


def pictures_by_class(folder: Path, what: str) -> pd.DataFrame:
    """The pictures below the folders of classes in a folder: `class_name`, and `file` sorted by name.

    Args:
        folder: the folder.
        what: what the folder is given as, for messages.

    Raises:
        InputError: see `pictures_under`; or a picture is in no folder of a class.
    """
    files = pictures_under(folder)
    parts = [relative(file, folder).partition(os.sep) for file in files]
    loose = next((file for file, (_, _, inside) in zip(files, parts, strict=True) if not inside), None)
    if loose is not None:
        raise InputError(f"{what}: {loose} is not in the folder of a class; move it into one, or elsewhere")
    return pd.DataFrame({"class_name": [name for name, _, _ in parts], "file": files}, dtype=object)


def relative(file: str, folder: Path) -> str:
    """The path of a file relative to a folder, which need not contain it."""
    start = f"{folder}{os.sep}"
    return file.removeprefix(start) if file.startswith(start) else os.path.relpath(file, folder)


def read_lists(folder: Path, split: Split) -> Iterator[tuple[Path, pd.DataFrame]]:
    """The lists of a split under a folder, compressed (.gz) or not, support first, and their rows.

    If support and query have separate lists, a list of both (test.csv) is not read. Lists may lie in split/ or splits/,
    and the pictures in images/ or data/.

    Yields:
        Path of a list, and a frame with the columns `file`, the path of a picture, and `class_name`.

    Raises:
        InputError: see `read_list`.
    """
    for place in (".", "split", "splits"):
        candidates = [folder / place / f"{name}.csv{packed}" for name in FILES[split] for packed in ("", ".gz")]
        paths = [path for path in candidates if path.is_file()]
        without = _whole({path.name.partition(".")[0] for path in paths})
        for path in (path for path in paths if path.name.partition(".")[0] not in without):
            rows = read_list(path)
            holder = next((p for p in (".", "images", "data") if (folder / p / rows["file"][0]).is_file()), ".")
            yield path, rows.assign(file=[os.path.join(folder / holder, file) for file in rows["file"]])
        if paths:
            return


def read_list(path: Path) -> pd.DataFrame:
    """The rows of a list, with the columns `file` and `class_name`. The header is optional.

    Raises:
        InputError: the file is not a CSV, or a line has no picture or no class, or repeats a picture; the message names
            the file and the line.
    """
    try:
        lines = [(*map(str.strip, cells), "", "")[:2] for _, cells in csv_lines(path)]
    except (OSError, EOFError, zlib.error) as error:  # of a .gz
        raise InputError(f"{path}: cannot be read ({error}); download it again") from error
    rows = pd.DataFrame(lines, columns=["file", "class_name"], dtype=str)
    rows = rows[(rows != "").any(axis=1)]
    rows = rows[1:] if len(rows) and not is_picture(rows["file"].iloc[0]) else rows  # without the header
    if not len(rows):
        raise InputError(f"{path}: lists no pictures; each line must have a file and its class, such as cat01.jpg,cat")
    wrong = ~rows["file"].map(is_picture) | (rows["class_name"] == "")
    if wrong.any():
        line = ",".join(rows[wrong].iloc[0])[:60]
        raise InputError(f"{path}: {line!r} is not a file and its class, such as cat01.jpg,cat")
    if (repeated := rows["file"][rows["file"].duplicated()]).size:
        raise InputError(f"{path}: lists {repeated.iloc[0]} twice; remove one of the two lines")
    return rows.reset_index(drop=True)


def _whole(words: Set[str]) -> tuple[str, ...]:
    """Names of lists or folders of all novel pictures, if others divide them into support and query (iNat)."""
    return ("test", "novel") if "query" in words and words & {"repr", "support"} else ()


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
    reason = f"it has no {error}" if isinstance(error, KeyError) else str(error)
    return InputError(f"{path}: damaged, or in another format ({reason}); download it again")


def _shard(path: Path) -> pd.DataFrame:
    """The pictures of an archive with arrays `blob` (the concatenated files), `offset` (n + 1, the start of each file),
    `label` (n, index into `classes`) and `image_id` (n, the number in a picture's name)."""
    try:
        file = read_arrays(path)
        blob, offset = file["blob"], file["offset"].astype(np.int64)
        classes = file["classes"][file["label"]].tolist()
        ids = file["image_id"].tolist()
        if len(offset) != len(ids) + 1 or len(classes) != len(ids) or (np.diff(offset, append=len(blob)) < 0).any():
            raise ValueError("its pictures, labels and names are inconsistent")
    except UNREADABLE as error:
        raise _damaged(path, error) from error
    names = [f"{path}: {name}{number:08d}.jpg" for name, number in zip(classes, ids, strict=True)]
    return frame_of(names, classes, lambda span: blob[span[0] : span[1]].tobytes(), itertools.pairwise(offset))


def _with_labels(path: Path) -> tuple[Path, ...]:
    """A cache, and the file of its labels if they are in a separate file."""
    stem = re.sub(r"_images(_png)?$", "", path.stem)
    if stem == path.stem:
        return (path,) if path.suffix != ".npz" else ()
    labels = [path.with_name(f"{stem}_labels{suffix}") for suffix in PICKLES]
    return (path, next((file for file in labels if file.is_file()), labels[0]))


def _cache(path: Path, labels: Path | None = None) -> pd.DataFrame:
    """Pictures of a cache in one of three common forms.

    The first is a dict of `image_data` (N, H, W, 3) and `class_dict`, the rows of each class (mini-ImageNet). The
    second is a dict of `data`, `labels` and sometimes `catname2label` (mini-ImageNet, CIFAR-FS, FC100). The third has
    the labels in a separate file, and the pictures in a list of PNG files or in an archive with `images`
    (tiered-ImageNet); OpenCV read the latter, so their channels are in the order blue, green, red.
    """
    try:
        content: Any = read_arrays(path) if path.suffix == ".npz" else read_pickle(path)
        turned = False
        if labels is not None:
            said = read_pickle(labels)
            classes = _names(said.get("label_specific", said.get("labels")), said.get("label_specific_str"))
            images, turned = (content["images"], True) if isinstance(content, Mapping) else (content, False)
        elif "image_data" in content:
            images, classes = content["image_data"], [""] * len(content["image_data"])
            for name, rows in content["class_dict"].items():
                for row in rows:
                    classes[row] = str(name)
        else:
            images, said = content["data"], content.get("catname2label")
            classes = _names(content["labels"], said and {int(value): name for name, value in said.items()})
        if len(images) != len(classes) or "" in classes:
            raise ValueError(f"{len(images)} pictures, {sum(name != '' for name in classes)} labels")
        pixels = isinstance(images, np.ndarray)
        if pixels and (images.ndim != 4 or images.shape[3] != 3 or images.dtype != np.uint8):
            raise ValueError(f"images of {images.dtype} {images.shape}, not of uint8 (N, H, W, 3)")
    except InputError:
        raise
    except (*UNREADABLE, AttributeError) as error:
        raise _damaged(path, error) from error

    def read(index: int) -> Stored:
        if pixels:
            return np.ascontiguousarray(images[index][..., ::-1]) if turned else images[index]
        stored = images[index]
        if isinstance(stored, str):  # bytes of Python 2
            return stored.encode("latin1")
        return stored.tobytes() if isinstance(stored, np.ndarray) else bytes(stored)

    names = [f"{path}: picture {index} of {name}" for index, name in enumerate(classes)]
    return frame_of(names, classes, read, range(len(names)))


def _names(labels: Any, words: Any) -> list[str]:
    """The class of each picture: the name of its label if every label has a name, otherwise the label itself."""

    def text(value: Any) -> str:
        return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)

    numbers = np.asarray(labels)
    if numbers.dtype.kind == "i" and numbers.size and numbers.min() < 0:
        raise ValueError(f"a label is {numbers.min()}")
    if words is not None and numbers.dtype.kind in "iu" and len(set(map(str, words))) == len(words):
        return [text(words[int(number)]) for number in numbers]
    return [text(label) for label in numbers.tolist()]


def _of_files(
    layout: str, split: Split | None, files: Sequence[str], classes: Sequence[str], lists: tuple[Path, ...] = ()
) -> Place:
    return Place(layout, split, lambda: frame_of(files, classes, read_bytes, files), lists, tuple(files))


def _folders(folder: Path, known: Mapping[str, Split]) -> list[Place]:
    """Pictures in folders named after classes, or with the class in their own name (n0153282900000005.jpg).

    The split of a class that is not in the authors' lists is the name of the folder directly below the root. If there
    are folders named repr or query, support comes before query, and test/ contains the same pictures again.
    """
    below = len(f"{folder}{os.sep}")
    files = [(file, file[below:].partition(os.sep)[0].lower()) for file in pictures_under(folder)]
    without = _whole({top for _, top in files})
    members: dict[Split | None, tuple[list[str], list[str]]] = {}
    for file, top in sorted(files, key=lambda item: item[1] == "query"):
        name = _named(file, known)
        split = None if name else next((split for split in SPLITS if top in FILES[split]), None)
        if top not in without:
            mine, classes = members.setdefault(split, ([], []))
            mine.append(file)
            classes.append(name or os.path.basename(os.path.dirname(file)))
    return [_of_files("folders of pictures", split, *members[split]) for split in (None, *SPLITS) if split in members]


def _named(file: str, known: Mapping[str, Split]) -> str:
    """The class of a picture by its folder or by the beginning of its name, if it is in the authors' lists."""
    parent, name = ["", "", *file.rsplit(os.sep, 2)][-2:]
    return next((word for word in (parent, name[:9]) if word in known), "")
