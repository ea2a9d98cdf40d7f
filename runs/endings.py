"""What is said about an error that ends a command or a job, and the exit code that it stands for."""

import errno
from collections.abc import Iterator

from clustering.errors import InputError

FAILED, MISTAKE = 1, 2


def explain(error: BaseException) -> tuple[str, int]:
    """One line or more on an error, and the exit code: 2 for a mistake that the user can mend, else 1."""
    if isinstance(error, InputError):
        return str(error), MISTAKE
    for cause in _causes(error):
        if isinstance(cause, MemoryError):
            needed = f" ({cause})" if str(cause) else ""
            return f"not enough memory{needed}; ask for fewer points, tasks or samples", MISTAKE
        full = isinstance(cause, OSError) and cause.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        if full or "disk is full" in str(cause).lower() or "no space left" in str(cause).lower():
            where = getattr(cause, "filename", None)
            place = f" at {where}" if where else ""
            return (
                f"the disk is full{place}. What was finished before is untouched. Make room and give the same "
                "command again, which goes on from there, or choose another folder with results=FOLDER",
                MISTAKE,
            )
    first = next(iter(str(error).strip().splitlines()), "")
    return f"{type(error).__name__}: {first}" if first else type(error).__name__, FAILED


def _causes(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        yield current
        current = current.__cause__ or current.__context__
