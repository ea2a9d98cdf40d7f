"""Messages and exit codes for errors that end a command or a job."""

import errno
from collections.abc import Iterator

from clustering.foundation.errors import InputError
from runs.record.passwords import without_passwords

FAILED, MISTAKE = 1, 2
PLACES = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ELOOP, errno.ENAMETOOLONG, errno.EISDIR, errno.ENOTDIR)
"""Errors about a path; they are attributed to the user's input."""
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
EXTRAS = (
    *("PIL", "fastapi", "filelock", "jinja2", "lightning_fabric", "markupsafe", "matplotlib", "mlflow", "pyarrow"),
    *("pytorch_lightning", "requests", "rich", "sqlalchemy", "starlette", "timm", "torchvision"),
    *("uvicorn", "yaml"),
)
"""Packages that `pip install transduce` does not install; `pip install 'transduce[all]'` does."""


def explain(error: BaseException) -> tuple[str, int]:
    """The message for an error, and the exit code: 2 if the user can correct the cause, else 1."""
    text = next((told for cause in _causes(error) if (told := _told(cause, error))), "")
    first = next(iter(str(error).strip().splitlines()), "")
    failed = f"{type(error).__name__}: {first}" if first else type(error).__name__
    return without_passwords(text or failed), MISTAKE if text else FAILED


def _told(cause: BaseException, error: BaseException) -> str:
    """The message for an error that the user can correct, of which this is a cause; else empty."""
    text = str(cause)
    number, place = getattr(cause, "errno", None), getattr(cause, "filename", None)
    if isinstance(error, InputError):
        return str(error)
    if isinstance(cause, MemoryError):
        return f"not enough memory{f' ({text})' if text else ''}; reduce the number of points, tasks or samples"
    if number in FULL or "disk is full" in text.lower() or "no space left" in text.lower():
        return (
            f"the disk is full{f' at {place}' if place else ''}. Finished results are intact. Free some space and "
            "rerun the same command to continue, or choose another folder with results=FOLDER"
        )
    if type(cause).__module__ == "sqlite3":
        busy = "another process is writing to it; rerun the same command later"
        remedy = busy if "locked" in text else "move it elsewhere, or choose another folder with results=FOLDER"
        return f"the database of runs cannot be used ({text}); {remedy}"
    if cause is not error:
        return ""
    if hasattr(error, "format_message"):  # of the command line
        return error.format_message() or type(error).__name__
    if isinstance(error, ModuleNotFoundError) and (error.name or "").partition(".")[0] in EXTRAS:
        return f"this command requires {error.name}, which is not installed; pip install 'transduce[all]'"
    if number in PLACES and place is not None:
        return f"{place}: {getattr(error, 'strerror', text)}; correct the path, or give another one"
    if isinstance(error, RuntimeError) and text.startswith(("Symlink loop", "Could not determine home")):
        return f"{text}; give another path"
    return ""


def _causes(error: BaseException) -> Iterator[BaseException]:
    visited: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in visited:
        visited.add(id(current))
        yield current
        current = current.__cause__ or current.__context__
