"""Finding and reading the files of a data set."""

import gzip
from collections.abc import Sequence
from pathlib import Path

from clustering.files.regular import open_regular
from clustering.foundation.errors import InputError


def files_of(name: str, root: str | None, forms: Sequence[Sequence[str]], content: str = "") -> list[Path]:
    """The files of the first of these alternatives that is complete, each plain or compressed (.gz).

    Args:
        name: name of the data set.
        root: its folder.
        forms: alternatives, each the names of some files.
        content: what the files contain, for messages.

    Raises:
        InputError: there is no such folder, or no alternative is complete; the message says which files belong in it.
    """
    wanted = f"{', or '.join(' and '.join(form) for form in forms)} (plain or .gz{content and f'; {content}'})"
    if root is None:
        raise InputError(f"dataset {name}: no folder given; add root=FOLDER with {wanted}")
    folder = Path(root).expanduser()
    if not folder.is_dir():
        raise InputError(f"dataset {name}: {folder} is not a folder; set root=FOLDER to a folder with {wanted}")
    for form in forms:
        found = [next((p for p in (folder / file, folder / f"{file}.gz") if p.is_file()), None) for file in form]
        paths = [path for path in found if path is not None]
        if len(paths) == len(form):
            return paths
    raise InputError(f"dataset {name}: {folder} does not contain {wanted}; put it there, or set another root=FOLDER")


def damaged(name: str, path: Path, error: BaseException) -> InputError:
    """The error that a file is not what its name says; an InputError is returned unchanged."""
    if isinstance(error, InputError):
        return error
    reason = f"it has no {error}" if isinstance(error, KeyError) else str(error)
    return InputError(f"dataset {name}: {path} cannot be read ({reason}); download it again")


def open_bytes(path: Path) -> bytes:
    """The content of a file, decompressed if it ends in .gz."""
    with open_regular(path) as file:
        content = file.read()
    return gzip.decompress(content) if path.suffix == ".gz" else content
