"""Errors of a full disk, and replacement of files and folders in one step."""

import errno
import os
import shutil
import tempfile
from pathlib import Path

from clustering.files.atomic import replacing

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
IN_WORDS = ("disk is full", "no space left", "quota exceeded")


def is_full(error: BaseException) -> bool:
    """Return whether an error says that the disk is full; SQLite, safetensors and torch say so in words only."""
    return getattr(error, "errno", None) in FULL or any(words in str(error).lower() for words in IN_WORDS)


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
