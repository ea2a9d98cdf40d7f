"""CSV lists of the pictures of each split, in the format of Ravi and Larochelle, SimpleShot and TIM."""

import csv
import io
import os
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Literal, NamedTuple

from clustering.datasets.files import open_bytes
from clustering.files.picture_formats import is_picture, warn_of_others
from clustering.foundation.errors import InputError
from fsl.benchmarks.benchmark import Split

FILES: dict[Split, tuple[str, ...]] = {
    "base": ("train", "base"),
    "validation": ("val", "valid", "validation"),
    "novel": ("test", "novel", "repr", "support", "query"),
}
Role = Literal["support", "query"]
# names of the lists or folders in which the authors of iNat divide the novel pictures
ROLES: dict[str, Role] = {"repr": "support", "support": "support", "query": "query"}
PLACES = (".", "split", "splits")
PICTURES = (".", "images", "data")
HIDDEN = (".", "__MACOSX", "lost+found")
"""Prefixes of folders that are ignored."""


class Row(NamedTuple):
    """An entry of a list: the file of a picture, relative to the folder of pictures, and its class."""

    file: str
    label: str


def pictures_under(folder: Path) -> list[str]:
    """The pictures in a folder and its subfolders, sorted by name, without hidden files and files added by macOS.

    Paths are strings, because `Path` objects of a million pictures take half a minute.

    Raises:
        InputError: a folder cannot be read or occurs twice (through circular links), or something with the name of a
            picture is not a file: reading a pipe or a device may never end.
    """
    pictures: list[tuple[str, str]] = []
    known: dict[str, str] = {}
    waiting = [(str(folder), os.path.realpath(folder))]
    while waiting:
        place, real = waiting.pop()
        if real in known:
            raise InputError(f"{place} and {known[real]} are the same folder because of a link; remove the link")
        known[real] = place
        try:
            entries = list(os.scandir(place))
        except OSError as error:
            raise InputError(f"{place}: cannot be read ({error.strerror}); make it readable, or remove it") from error
        warn_of_others(place, [entry.name for entry in entries])
        for entry in entries:
            if entry.is_dir(follow_symlinks=False) or (entry.is_symlink() and os.path.isdir(entry.path)):
                if not entry.name.startswith(HIDDEN):
                    below = os.path.realpath(entry.path) if entry.is_symlink() else os.path.join(real, entry.name)
                    waiting.append((entry.path, below))
            elif is_picture(entry.name):
                if not entry.is_file(follow_symlinks=False) and _is_special_file(entry.path):
                    raise InputError(f"{entry.path}: is not a regular file (a pipe or device, for example); remove it")
                pictures.append((entry.name, place))
    return [f"{place}{os.sep}{name}" for name, place in sorted(pictures)]


def _is_special_file(path: str) -> bool:
    """Whether the path is something other than a file. Broken links do not count: reading them fails with an error."""
    return os.path.exists(path) and not os.path.isfile(path)


def find_lists(folder: Path, split: Split) -> list[Path]:
    """The lists of a split under a folder, compressed (.gz) or not, in reading order: support first.

    If support and query have separate lists, a list of both (test.csv) is not read.
    """
    for place in PLACES:
        candidates = [folder / place / f"{name}.csv{packed}" for name in FILES[split] for packed in ("", ".gz")]
        paths = [path for path in candidates if path.is_file()]
        divided = [path for path in paths if role_of(path)]
        if paths:
            return divided if len({role_of(path) for path in divided}) == 2 else paths
    return []


def role_of(path: Path) -> Role | None:
    """The role (support or query) of the pictures of a list, by its name."""
    return ROLES.get(path.name.partition(".")[0])


def read_list(path: Path) -> list[Row]:
    """The rows of a list. The header is optional, and the columns may be in either order.

    Raises:
        InputError: a line is not text, has no picture or no class, or repeats a picture; the message names the file
            and the line.
    """
    try:
        text = open_bytes(path).decode("utf-8-sig")
        lines = [line for line in csv.reader(io.StringIO(text)) if any(cell.strip() for cell in line)]
    except (OSError, EOFError, ValueError, csv.Error, zlib.error) as error:
        raise InputError(f"{path}: cannot be read as a list of pictures ({error}); download it again") from error
    if lines and not any(is_picture(cell.strip()) for cell in lines[0]):
        del lines[0]  # the header
    if not lines:
        raise InputError(f"{path}: lists no pictures; each line must have a file and its class, such as cat01.jpg,cat")
    column = next((place for place, cell in enumerate(lines[0][:2]) if is_picture(cell.strip())), 0)
    rows = []
    names = set()
    for line in lines:
        cells = [cell.strip() for cell in line]
        if len(cells) < 2 or not is_picture(cells[column]) or not cells[1 - column]:
            raise InputError(f"{path}: {','.join(line)[:60]!r} is not a file and its class, such as cat01.jpg,cat")
        if cells[column] in names:
            raise InputError(f"{path}: lists {cells[column]} twice; remove one of the two lines")
        names.add(cells[column])
        rows.append(Row(cells[column], cells[1 - column]))
    return rows


def picture_folder(folder: Path, rows: Iterable[Row]) -> Path:
    """The folder of a list's pictures: the folder itself, or its images/ or data/."""
    first = next(iter(rows)).file
    for place in PICTURES:
        if (folder / place / first).is_file():
            return folder / place
    return folder
