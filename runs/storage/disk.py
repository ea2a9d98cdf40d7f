"""Errors of a full or read-only disk as one plain message, and replacement of files and folders in one step."""

import errno
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from clustering.files.atomic import replacing
from clustering.foundation.errors import InputError

ENVIRONMENT = "TRANSDUCE_RESULTS"
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
UNWRITABLE = (
    errno.EACCES,
    errno.EPERM,
    errno.EROFS,
    errno.ENOTDIR,
    errno.EEXIST,
    errno.ENXIO,
    errno.ELOOP,
    errno.ENAMETOOLONG,
)
# SQLite, safetensors and torch raise errors of their own for a full disk.
FULL_IN_WORDS = ("no space left on device", "database or disk is full", "disk quota exceeded")


@contextmanager
def watched(root: Path) -> Iterator[None]:
    """Turn the errors that libraries raise for a full or read-only disk into one plain error.

    Args:
        root: the results folder.

    Raises:
        InputError: the folder cannot be written.
        OSError: with errno ENOSPC, and a message that says what is kept.
    """
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        if is_disk_full(error):
            raise OSError(
                errno.ENOSPC,
                "the disk is full; finished results are kept: free some space and rerun the same command",
                str(root),
            ) from error
        if _is_unwritable(error, root):
            raise unwritable(error, root) from error
        raise


def unwritable(error: Exception, root: Path) -> InputError:
    """Return the message about a results folder that cannot be written."""
    reason = error.strerror if isinstance(error, OSError) else "it is read-only"
    return InputError(
        f"cannot write to the results folder {root}: {reason}; "
        f"use another one with results=FOLDER or {ENVIRONMENT}=FOLDER"
    )


def is_disk_full(error: BaseException) -> bool:
    """Return whether an error says that the disk is full."""
    if isinstance(error, OSError) and error.errno in FULL:
        return True
    return any(words in str(error).lower() for words in FULL_IN_WORDS)


def write_text(path: Path, text: str) -> None:
    """Write a text file in one step: a concurrent reader gets the old or the new content."""
    with replacing(path) as partial:
        partial.write_text(text, encoding="utf-8")


def put_in_place(new: Path, folder: Path) -> None:
    """Rename a finished folder to its final name; an existing folder is renamed first and then deleted."""
    if not os.path.lexists(folder):
        os.replace(new, folder)
        return
    old = Path(tempfile.mkdtemp(prefix=f"{folder.name}.old-", dir=folder.parent))
    os.replace(folder, old / folder.name)
    os.replace(new, folder)
    shutil.rmtree(old, ignore_errors=True)


def _is_unwritable(error: Exception, root: Path) -> bool:
    if not isinstance(error, OSError):
        return "attempt to write a readonly database" in str(error).lower()
    place = Path(str(error.filename or root))
    return error.errno in UNWRITABLE and (place.is_relative_to(root) or root.is_relative_to(place))
