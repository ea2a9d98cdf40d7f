"""A user's own pictures: their features and those of class names, cached by network and content, and thumbnails."""

import io
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from clustering.files.pictures import open_picture
from clustering.files.regular import read_bytes
from clustering.files.tensors import read_tensors, write_tensors
from clustering.foundation.cores import on_each_core
from clustering.foundation.errors import InputError
from clustering.foundation.progress import quiet
from clustering.lengths import unit_rows
from fsl.features.prompts import texts_of
from fsl.picture_folders import digests
from runs.cache import Store, key
from runs.own_data.page import data_url

if TYPE_CHECKING:
    from torch import Tensor

    from clustering.datasets.dataset import Dataset
    from clustering.foundation.progress import Progress
    from fsl.features.image_encoder import ImageEncoder
    from runs.config.cluster import ClusterConfig

KIND = "features"
FORMAT = "transduce picture features 1"
FILE = "features.safetensors"
SIDE = 128  # longer side of a thumbnail on a page in pixels


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
    files: Sequence[str], encoder: "ImageEncoder", store: Store, progress: "Progress", *, skip: bool
) -> Pictures:
    """Compute the features of pictures, or read them from the cache.

    Args:
        files: paths of the pictures.
        encoder: the network.
        store: the store with the cache.
        progress: shows progress and messages.
        skip: skip pictures that cannot be read, with a message; otherwise the first raises an error.

    Raises:
        InputError: a picture cannot be read, or with `skip`, none can be read.
    """
    contents, broken = digests(files), dict[int, str]()
    kept = np.arange(len(files))

    def computed() -> "tuple[Tensor, bool]":
        nonlocal kept
        encoded = encoder.encode(files, broken="skip" if skip else "raise", progress=progress)
        broken.update(encoded.broken)
        kept = encoded.kept.numpy()
        for problem in broken.values():
            progress.note(f"skipped: {problem}")
        if len(broken) == len(files):
            raise InputError(f"none of {len(files):,} pictures can be read; the first: {broken[0]}")
        return encoded.features, not broken  # sets with broken pictures are read again, to report the errors

    what = f"features of {len(files):,} pictures"
    features = _cached(what, {"encoder": encoder.fingerprint, "pictures": contents}, computed, store, progress)
    return Pictures(tuple(files), contents, kept, features, tuple(broken.values()))


def encode_names(
    names: Sequence[str], prompts: Sequence[str], encoder: "ImageEncoder", store: Store, progress: "Progress"
) -> "Tensor":
    """Compute the (K, D) features of class names from the templates of their texts, or read them from the cache.

    Raises:
        InputError: the network has no text tower.
    """
    texts = {"encoder": encoder.fingerprint, "texts": texts_of(names, prompts), "prompts": len(prompts)}
    what = f"features of {len(names):,} class names"
    return _cached(
        what, texts, lambda: (encoder.encode_names(names, prompts, progress=progress), True), store, progress
    )


def with_features(data: "Dataset", config: "ClusterConfig") -> "Dataset":
    """Replace the pixels of a folder of pictures by the features that the network of a config has of them.

    Raises:
        InputError: the network cannot be used.
    """
    from fsl.features.image_encoder import ImageEncoder

    top = Path(config.dataset.options["root"]).expanduser()
    encoder = ImageEncoder.of(config.encoder or "", weights=config.pretrained, device=config.device)
    found = encode([str(top / name) for name in data.names], encoder, Store(config.results), quiet, skip=False)
    return data._replace(values=unit_rows(found.features).numpy(), picture=None)


def thumbnail(file: str, size: int) -> bytes:
    """A JPEG of a picture whose longer side has at most `size` pixels.

    Raises:
        InputError: the picture cannot be read or decoded.
    """
    picture = open_picture(read_bytes(file), os.path.basename(file), least=size, upright=True)
    picture.thumbnail((size, size), Image.Resampling.LANCZOS)
    stream = io.BytesIO()
    picture.save(stream, "JPEG", quality=85)
    return stream.getvalue()


def thumbnail_urls(files: Sequence[str], progress: "Progress" = quiet) -> dict[str, str]:
    """A thumbnail of each file as a data URL; empty if the file has changed since it was read, and is no picture."""
    urls = dict[str, str]()
    with progress.track("making thumbnails", len(files)) as advance:
        for file, url in on_each_core(_thumbnail_url, files):
            urls[file] = url
            advance()
    return urls


def _thumbnail_url(file: str) -> str:
    try:
        return data_url(thumbnail(file, SIDE))
    except InputError:
        return ""


def _cached(
    what: str,
    inputs: Mapping[str, Any],
    compute: "Callable[[], tuple[Tensor, bool]]",
    store: Store,
    progress: "Progress",
) -> "Tensor":
    """Features from the cache, or computed: `compute` returns them, and whether they are to be kept."""
    same = key(KIND, {}, inputs, {})
    with store.lock(KIND, same, what, progress.note):
        if entry := store.find(KIND, same, progress.note, held=True):
            progress.note(f"{what}: reused")
            return read_tensors(entry.path / FILE, FORMAT, f"remove {entry.path}")[0]["features"]
        features, keep = compute()
        if keep:
            form = {"format": FORMAT}
            store.publish(KIND, same, lambda folder: write_tensors(folder / FILE, {"features": features}, form))
    return features
