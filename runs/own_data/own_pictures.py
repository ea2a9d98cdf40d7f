"""A person's own pictures with their features, which are kept in the cache by what is in the files and the network."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from clustering.files.heif import HEIF_REMEDY, is_heif, read_heif
from clustering.files.tensors import read_tensors, write_tensors
from clustering.foundation.errors import InputError
from fsl.picture_folders import digests
from runs.config.base import identity
from runs.storage.store import Store

if TYPE_CHECKING:
    from torch import Tensor

    from fsl.features.image_encoder import ImageEncoder
    from fsl.progress import Progress

FORMAT = "transduce picture features 1"
FILE = "features.safetensors"


@dataclass(frozen=True, eq=False)
class Pictures:
    """Pictures with their features.

    Attributes:
        paths: of all of them.
        digests: of what is in each file.
        kept: (N,) places of those that could be read.
        features: (N, D) float32 of these.
        broken: what is wrong with each of the others.
    """

    paths: tuple[str, ...]
    digests: tuple[str, ...]
    kept: NDArray[np.int64]
    features: "Tensor"
    broken: tuple[str, ...] = ()

    @property
    def files(self) -> list[str]:
        """Paths of the N pictures that could be read."""
        return [self.paths[place] for place in self.kept]


def encode(
    files: Sequence[str],
    encoder: "ImageEncoder",
    store: Store,
    progress: "Progress",
    *,
    skip: bool,
    known: dict[tuple[str, ...], Pictures],
) -> Pictures:
    """The features of pictures, from the cache where they are there.

    Args:
        known: of this command, where they are looked for first and put: the cache has none of which one is broken.
        skip: leave out pictures that cannot be read, and say which; else the first is an error.

    Raises:
        InputError: a picture that cannot be read, or none that can.
    """
    contents = digests(files)
    key = identity("pictures", encoder=encoder.fingerprint, pictures=contents)
    if (key, *files) not in known:
        known[key, *files] = _encode(files, contents, key, encoder, store, progress, skip)
    return known[key, *files]


def _encode(
    files: Sequence[str],
    contents: tuple[str, ...],
    key: str,
    encoder: "ImageEncoder",
    store: Store,
    progress: "Progress",
    skip: bool,
) -> Pictures:
    with store.lock("features", key, "the features of these pictures", progress.note):
        entry = store.find("features", key, progress.note)
        if entry is not None:
            try:
                tensors, _ = read_tensors(entry.path / FILE, FORMAT, "they are made again")
                progress.note(f"features of {len(files):,} pictures: reused")
                return Pictures(tuple(files), contents, np.arange(len(files)), tensors["features"])
            except InputError as error:
                progress.note(str(error))
                store.put_aside(entry.path, progress.note)
        _check_heif(files, skip)
        found = encoder.encode(files, broken="skip" if skip else "raise", progress=progress)
        broken = tuple(found.broken.values())
        for problem in broken:
            progress.note(f"skipped: {problem}")
        if broken:
            progress.note(f"{len(broken):,} of {len(files):,} pictures were skipped")
        if len(broken) == len(files):
            raise InputError(f"none of {len(files):,} pictures can be read; the first: {broken[0]}")
        if not broken:  # else they are looked at again each time, to say what is wrong with them
            partial = store.partial("features", key, fresh=True)
            with store.watched():
                write_tensors(partial / FILE, {"features": found.features}, {"format": FORMAT})
            store.publish("features", key, [FILE], {"pictures": len(files)})
    return Pictures(tuple(files), contents, found.kept.numpy(), found.features, broken)


def _check_heif(files: Sequence[str], skip: bool) -> None:
    """That all can be read that telephones write; else how many cannot.

    Raises:
        InputError: counts them, and names the first.
    """
    closed = [file for file in files if is_heif(file)]
    if closed and not skip and not read_heif():
        raise InputError(
            f"{len(closed):,} of {len(files):,} pictures, such as {closed[0]}: {HEIF_REMEDY}; broken=skip leaves "
            "them out"
        )
