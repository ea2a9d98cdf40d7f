"""Messages and exit codes for errors that end a command or a job."""

import errno

from clustering.foundation.errors import InputError
from runs.record.passwords import without_passwords
from runs.storage.disk import is_full

FAILED, MISTAKE = 1, 2
PLACES = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ELOOP, errno.ENAMETOOLONG, errno.EISDIR, errno.ENOTDIR)
"""Errors about a path; they are attributed to the user's input."""
OWN = ("clustering", "fairness", "fsl", "runs")


def explain(error: BaseException) -> tuple[str, int]:
    """The message for an error, and the exit code: 2 if the user can correct the cause, else 1."""
    causes: list[BaseException] = []
    cause: BaseException | None = error
    while cause is not None and cause not in causes:
        causes.append(cause)
        cause = cause.__cause__ or cause.__context__
    text = str(error) if isinstance(error, InputError) else next(filter(None, map(_of_machine, causes)), "")
    if text or (text := _of_words(error)):
        return without_passwords(text), MISTAKE
    first = next(iter(str(error).strip().splitlines()), "")
    return without_passwords(f"{type(error).__name__}: {first}" if first else type(error).__name__), FAILED


def _of_machine(cause: BaseException) -> str:
    """The message for a lack of memory or room, or a database that cannot be used; else empty."""
    text, place = str(cause), getattr(cause, "filename", None)
    if isinstance(cause, MemoryError):
        return f"not enough memory{f' ({text})' if text else ''}; reduce the number of points, tasks or samples"
    if is_full(cause):
        kept = "Finished results are intact. Free some space and rerun the same command to continue"
        return (
            f"the disk is full{f' at {place}' if place else ''}. {kept}, or choose another folder with results=FOLDER"
        )
    if type(cause).__module__ != "sqlite3":
        return ""
    busy = "another process is writing to it; rerun the same command later"
    remedy = busy if "locked" in text else "move it elsewhere, or choose another folder with results=FOLDER"
    return f"the database of runs cannot be used ({text}); {remedy}"


def _of_words(error: BaseException) -> str:
    """The message for an error in what was typed, or in its paths; else empty."""
    if hasattr(error, "format_message"):  # of the command line
        context = getattr(error, "ctx", None)
        return str(error.format_message()) + (f" (see {context.command_path} --help)" if context else "")
    if isinstance(error, ModuleNotFoundError) and (error.name or OWN[0]).partition(".")[0] not in OWN:
        return f"this command requires {error.name}, which is not installed; pip install 'transduce[all]'"
    if isinstance(error, OSError) and error.errno in PLACES and error.filename is not None:
        return f"{error.filename}: {error.strerror}; correct the path, or give another one"
    if isinstance(error, RuntimeError) and str(error).startswith(("Symlink loop", "Could not determine home")):
        return f"{error}; give another path"
    return ""
