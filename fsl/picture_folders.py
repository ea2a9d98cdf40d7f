"""A person's own pictures on disk: labelled ones in a folder for each class, others in any folder."""

import hashlib
import os
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from clustering.files.regular import open_regular
from clustering.foundation.cores import on_each_core
from clustering.foundation.errors import InputError
from fsl.benchmarks.split_lists import HIDDEN, SUFFIXES, pictures_under

FEWEST = 2  # classes


@dataclass(frozen=True)
class LabelledPictures:
    """Pictures of known classes.

    Attributes:
        files: paths of the N pictures, by class and name.
        labels: the class of each.
    """

    files: tuple[str, ...]
    labels: tuple[str, ...]


def labelled_pictures(folder: str | Path) -> LabelledPictures:
    """The pictures in a folder that has a folder for each class; a class's may lie in folders of their own.

    Raises:
        InputError: no such folder, a picture in no class's folder, a class without pictures, fewer than two classes.
    """
    top = _folder(folder, "support", "a folder that has a folder of pictures for each class")
    found: defaultdict[str, list[str]] = defaultdict(list)
    for file in pictures_under(top):
        name, _, inside = os.path.relpath(file, top).partition(os.sep)
        if not inside:
            raise InputError(f"support: {file} is in no class's folder; put it into one, or move it away")
        found[name].append(file)
    classes = sorted(entry.name for entry in os.scandir(top) if entry.is_dir() and not entry.name.startswith(HIDDEN))
    empty = [name for name in classes if name not in found]
    if classes and empty:
        raise InputError(
            f"support: {top / empty[0]} has no pictures{_and_others(len(empty))}; put some in, or remove the folder. "
            f"Pictures end in {', '.join(SUFFIXES)}"
        )
    if len(found) < FEWEST:
        has = f"only the class {next(iter(found))!r}" if found else "no folders of pictures"
        raise InputError(f"support: {top} has {has}; it needs a folder of pictures for each of at least two classes")
    files = [(file, name) for name in classes for file in found[name]]
    return LabelledPictures(tuple(file for file, _ in files), tuple(name for _, name in files))


def unlabelled_pictures(folder: str | Path) -> tuple[str, ...]:
    """The pictures in a folder and the folders in it, by path.

    Raises:
        InputError: no such folder, or no pictures.
    """
    top = _folder(folder, "query", "a folder with the pictures to be labelled")
    files = sorted(pictures_under(top))
    if not files:
        raise InputError(f"query: no pictures in {top}; they end in {', '.join(SUFFIXES)}")
    return tuple(files)


def check_apart(support: str | Path, query: str | Path) -> None:
    """That neither folder is in the other: its pictures would be labelled by themselves.

    Raises:
        InputError: names both.
    """
    first, second = (Path(os.path.realpath(Path(folder).expanduser())) for folder in (support, query))
    if first.is_relative_to(second) or second.is_relative_to(first):
        raise InputError(
            f"support {support} and query {query}: one is in the other, so pictures would be labelled by themselves; "
            "keep them apart"
        )


def digests(files: Sequence[str]) -> tuple[str, ...]:
    """32 hexadecimal digits of what is in each file.

    Raises:
        InputError: names the file that cannot be read.
    """
    return tuple(digest for _, digest in on_each_core(_digest, files))


def in_both(support: Mapping[str, str], query: Mapping[str, str]) -> list[tuple[str, str]]:
    """Queries that are, byte by byte, pictures of the support: (query, support) by file.

    Args:
        support, query: digest by file.
    """
    known = {digest: file for file, digest in support.items()}
    return [(file, known[digest]) for file, digest in query.items() if digest in known]


def copies(digests: Mapping[str, str]) -> list[tuple[str, str]]:
    """Files that are, byte by byte, an earlier one: (file, the first such).

    Args:
        digests: digest by file.
    """
    first: dict[str, str] = {}
    return [(file, first[digest]) for file, digest in digests.items() if first.setdefault(digest, file) != file]


def _digest(file: str) -> str:
    try:
        with open_regular(file) as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()[:32]
    except OSError as error:
        raise InputError(f"{file}: cannot be read ({error.strerror}); put it there again") from error


def _folder(folder: str | Path, role: str, wanted: str) -> Path:
    place = Path(folder).expanduser()
    if not place.is_dir():
        what = "is no folder" if place.exists() else "no such folder"
        raise InputError(f"{role}: {place}: {what}; give {wanted}")
    return place


def _and_others(count: int) -> str:
    return "" if count == 1 else f", nor have {count - 1} other class folders"
