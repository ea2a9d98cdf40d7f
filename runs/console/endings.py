"""Messages and exit codes for errors that end a command or a job."""

import errno
from collections.abc import Iterator

from clustering.foundation.errors import InputError
from runs.record.passwords import without_passwords

FAILED, MISTAKE = 1, 2
PLACES = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ELOOP, errno.ENAMETOOLONG, errno.EISDIR, errno.ENOTDIR)
"""Errors about a path; they are attributed to the user's input."""
EXTRAS = (
    *("PIL", "fastapi", "filelock", "jinja2", "lightning_fabric", "markupsafe", "matplotlib", "mlflow", "pyarrow"),
    *("pytorch_lightning", "requests", "rich", "sqlalchemy", "starlette", "timm", "torchvision"),
    *("uvicorn", "yaml"),
)
"""Packages that `pip install transduce` does not install; `pip install 'transduce[all]'` does."""


def explain(error: BaseException) -> tuple[str, int]:
    """The message for an error, and the exit code: 2 if the user can correct the cause, else 1."""
    text, code = _explained(error)
    return without_passwords(text), code


def _explained(error: BaseException) -> tuple[str, int]:
    if isinstance(error, InputError):
        return str(error), MISTAKE
    for cause in _causes(error):
        if isinstance(cause, MemoryError):
            needed = f" ({cause})" if str(cause) else ""
            return f"not enough memory{needed}; reduce the number of points, tasks or samples", MISTAKE
        full = isinstance(cause, OSError) and cause.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        if full or "disk is full" in str(cause).lower() or "no space left" in str(cause).lower():
            filename = getattr(cause, "filename", None)
            place = f" at {filename}" if filename else ""
            return (
                f"the disk is full{place}. Finished results are intact. Free some space and rerun the same command to "
                "continue, or choose another folder with results=FOLDER",
                MISTAKE,
            )
        if type(cause).__module__ == "sqlite3" and isinstance(cause, Exception):
            remedy = (
                "another process is writing to it; rerun the same command later"
                if "locked" in str(cause)
                else "move it elsewhere, or choose another folder with results=FOLDER"
            )
            return f"the database of runs cannot be used ({cause}); {remedy}", MISTAKE
    if isinstance(error, ModuleNotFoundError) and (error.name or "").partition(".")[0] in EXTRAS:
        return f"this command requires {error.name}, which is not installed; pip install 'transduce[all]'", MISTAKE
    if isinstance(error, OSError) and error.errno in PLACES and error.filename is not None:
        return f"{error.filename}: {error.strerror}; correct the path, or give another one", MISTAKE
    if isinstance(error, RuntimeError) and str(error).startswith(("Symlink loop", "Could not determine home")):
        return f"{error}; give another path", MISTAKE
    first = next(iter(str(error).strip().splitlines()), "")
    return f"{type(error).__name__}: {first}" if first else type(error).__name__, FAILED


def _causes(error: BaseException) -> Iterator[BaseException]:
    visited: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in visited:
        visited.add(id(current))
        yield current
        current = current.__cause__ or current.__context__
