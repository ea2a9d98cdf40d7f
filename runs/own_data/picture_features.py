"""Features of a user's own pictures, and of class names, cached by the network and the content of the files."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from clustering.files.picture_formats import HEIF_REMEDY, is_heif, read_heif
from clustering.files.tensors import read_tensors, write_tensors
from clustering.foundation.errors import InputError
from fsl.features.prompts import texts_of
from fsl.picture_folders import digests
from runs.cache import Store
from runs.cache import key as key_of

if TYPE_CHECKING:
    from torch import Tensor

    from clustering.foundation.progress import Progress
    from fsl.features.image_encoder import ImageEncoder

FORMAT = "transduce picture features 1"
FILE = "features.safetensors"


@dataclass(frozen=True, eq=False)
class Pictures:
    """Pictures with their features.

    Attributes:
        paths: paths of all pictures.
        digests: hash of each file's content.
        kept: (N,) indices of the readable pictures.
        features: (N, D) float32 features of these.
        broken: error messages of the other pictures.
    """

    paths: tuple[str, ...]
    digests: tuple[str, ...]
    kept: NDArray[np.int64]
    features: "Tensor"
    broken: tuple[str, ...] = ()

    @property
    def files(self) -> list[str]:
        """Paths of the N readable pictures."""
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
    """Compute the features of pictures, or read them from the cache.

    Args:
        files: paths of the pictures.
        encoder: the network.
        store: the store with the cache.
        progress: shows progress and messages.
        skip: skip pictures that cannot be read, with a message; otherwise the first raises an error.
        known: results of this command, which are searched first; sets with broken pictures are not in the cache.

    Raises:
        InputError: a picture cannot be read, or with `skip`, none can be read.
    """
    contents = digests(files)
    key = key_of("features", {}, {"encoder": encoder.fingerprint, "pictures": contents}, {})
    if (key, *files) not in known:
        known[key, *files] = _encode(files, contents, key, encoder, store, progress, skip)
    return known[key, *files]


def encode_names(
    names: Sequence[str], prompts: Sequence[str], encoder: "ImageEncoder", store: Store, progress: "Progress"
) -> "Tensor":
    """Compute the (K, D) features of class names, or read them from the cache.

    Args:
        names: K class names.
        prompts: templates of the texts of a name.
        encoder: the network.
        store: the store with the cache.
        progress: shows progress and messages.

    Raises:
        InputError: the network has no text tower.
    """
    texts = {"encoder": encoder.fingerprint, "texts": texts_of(names, prompts), "prompts": len(prompts)}
    key = key_of("features", {}, texts, {})
    with store.lock("features", key, "the features of these class names", progress.note):
        known = _cached(store, key, progress)
        if known is not None:
            return known
        features = encoder.encode_names(names, prompts, progress=progress)
        _keep(features, store, key, {"names": len(names)})
    return features


def _cached(store: Store, key: str, progress: "Progress") -> "Tensor | None":
    """Return features from the cache; None if they are not there, or damaged."""
    entry = store.find("features", key, progress.note)
    if entry is None:
        return None
    try:
        return read_tensors(entry.path / FILE, FORMAT, "the features are computed again")[0]["features"]
    except InputError as error:
        store.put_aside(entry.path, str(error), progress.note)
    return None


def _keep(features: "Tensor", store: Store, key: str, facts: dict[str, Any]) -> None:
    """Write features to the cache."""

    def save(folder: Path) -> None:
        write_tensors(folder / FILE, {"features": features}, {"format": FORMAT})

    store.publish("features", key, save, facts=facts)


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
        known = _cached(store, key, progress)
        if known is not None:
            progress.note(f"features of {len(files):,} pictures: reused")
            return Pictures(tuple(files), contents, np.arange(len(files)), known)
        _check_heif(files, skip)
        encoded = encoder.encode(files, broken="skip" if skip else "raise", progress=progress)
        broken = tuple(encoded.broken.values())
        for problem in broken:
            progress.note(f"skipped: {problem}")
        if broken:
            progress.note(f"{len(broken):,} of {len(files):,} pictures were skipped")
        if len(broken) == len(files):
            raise InputError(f"none of {len(files):,} pictures can be read; the first: {broken[0]}")
        if not broken:  # sets with broken pictures are read again each time, to report the errors
            _keep(encoded.features, store, key, {"pictures": len(files)})
    return Pictures(tuple(files), contents, encoded.kept.numpy(), encoded.features, broken)


def _check_heif(files: Sequence[str], skip: bool) -> None:
    """Check that HEIF pictures, as written by phones, can be read.

    Raises:
        InputError: they cannot be read; the message gives their number and the first.
    """
    closed = [file for file in files if is_heif(file)]
    if closed and not skip and not read_heif():
        raise InputError(
            f"{len(closed):,} of {len(files):,} pictures, such as {closed[0]}: {HEIF_REMEDY}; broken=skip skips them"
        )
