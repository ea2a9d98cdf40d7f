"""Splits that nobody may look at for a while: the novel classes, while hyper-parameters are chosen."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

_closed: Counter[str] = Counter()


class ClosedSplitError(RuntimeError):
    """A closed split was asked for: a mistake in the code that asked, which no user can mend."""


@contextmanager
def closed(*splits: str) -> Iterator[None]:
    """Refuse the images and features of these splits, in every thread of the process, while the block runs."""
    _closed.update(splits)
    try:
        yield
    finally:
        _closed.subtract(splits)


def check_open(split: str) -> None:
    """To be called by whatever gives out images or features.

    Raises:
        ClosedSplitError: the split is closed.
    """
    if _closed[split] > 0:
        raise ClosedSplitError(f"the {split} split is closed: nothing may be chosen by what is in it")
