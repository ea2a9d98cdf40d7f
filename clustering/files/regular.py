"""Opening of user-named paths only if they are regular files, since devices and pipes may be endless."""

import errno
import gzip
import os
import stat
from collections.abc import Sequence
from io import BufferedReader
from pathlib import Path

from clustering.foundation.errors import InputError
from clustering.foundation.fingerprint import Fingerprint, Part


def open_regular(path: str | Path) -> BufferedReader:
    """The file, opened for reading bytes. Never blocks, unlike opening a pipe without a writer.

    Raises:
        OSError: the file does not exist, cannot be opened, or is a folder, device, pipe or socket.
    """
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    try:
        mode = os.fstat(handle).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, "not a regular file (a device or pipe)", str(path))
        return os.fdopen(handle, "rb")
    except BaseException:
        os.close(handle)
        raise


def read_text(path: str | Path) -> str:
    """The text of a file in UTF-8.

    Raises:
        OSError: as `open_regular`.
        UnicodeDecodeError: the file is not in UTF-8.
    """
    with open_regular(path) as file:
        return file.read().decode("utf-8")


def read_bytes(path: str | Path, remedy: str = "restore it") -> bytes:
    """The content of a user's file, decompressed if it ends in .gz.

    Raises:
        InputError: it cannot be opened or read; the message names it and the remedy.
        OSError, EOFError, zlib.error: it is not compressed, although it ends in .gz.
    """
    try:
        with open_regular(path) as file:
            content = file.read()
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); {remedy}") from error
    return gzip.decompress(content) if Path(path).suffix.lower() == ".gz" else content


def text_of(path: str | Path) -> str:
    """The text of a user's file in UTF-8, without a byte order mark, decompressed if it ends in .gz.

    Raises:
        InputError: it cannot be read, or is not text in UTF-8; the message names it and the remedy.
    """
    try:
        text = read_bytes(path, "give an existing file").decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: is not text in UTF-8; save it as such (in Excel: CSV UTF-8)") from error
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise InputError(f"{path}: line {line} has a NUL byte, so the file is not text; save it as text in UTF-8")
    return text


def head_of(path: str | Path) -> bytes:
    """The first bytes of a file, which identify its format; empty if there is no file."""
    if not os.path.isfile(path):
        return b""
    with open_regular(path) as file:
        return file.read(1 << 16)


def state_of(path: str | Path) -> tuple[int, int, int, int]:
    """Values that change when a file does: its device, inode, size and time."""
    status = os.stat(path)
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def fingerprint_of_files(paths: Sequence[Path], *parts: Part) -> str:
    """Fingerprint of the parts and of the content of files, independent of their names; read piece by piece.

    Raises:
        OSError: as `open_regular`.
    """
    fingerprint = Fingerprint(*parts)
    for path in paths:
        fingerprint.begin(path.stat().st_size)
        with open_regular(path) as file:
            while piece := file.read(1 << 22):
                fingerprint.go_on(piece)
    return str(fingerprint)
