"""Closed splits: protection of the novel classes from access while hyper-parameters are chosen."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

_closed: Counter[str] = Counter()


class ClosedSplitError(RuntimeError):
    """A closed split was read. This is a programming error, which users cannot correct."""


@contextmanager
def closed(*splits: str) -> Iterator[None]:
    """Deny access to images and features of these splits in all threads of the process, within the block."""
    _closed.update(splits)
    try:
        yield
    finally:
        _closed.subtract(splits)


def check_open(split: str) -> None:
    """Check that a split may be read; called by all functions that return images or features.

    Raises:
        ClosedSplitError: the split is closed.
    """
    if _closed[split] > 0:
        raise ClosedSplitError(f"the {split} split is closed while hyper-parameters are chosen")
