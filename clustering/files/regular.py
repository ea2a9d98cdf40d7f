"""Files that a person names are opened only where they are files: a device or a pipe may have no end."""

import errno
import os
import stat
from io import BufferedReader
from pathlib import Path


def open_regular(path: str | Path) -> BufferedReader:
    """The file, to be read in bytes. It never waits, as opening a pipe without a writer does.

    Raises:
        OSError: it is not there, cannot be opened, or is a folder, a device, a pipe or a socket.
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


def head_of(path: str | Path, most: int = 1 << 16) -> bytes:
    """The first bytes of a file: what it is, before it is written over. Of what is no file there are none."""
    if not os.path.isfile(path):
        return b""
    with open_regular(path) as file:
        return file.read(most)
