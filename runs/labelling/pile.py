"""The items of a pile, with their features: pictures of a folder, rows of a table, or rows of a file of features."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from clustering.files.regular import fingerprint_of_files
from clustering.foundation.errors import InputError
from clustering.foundation.fingerprint import fingerprint
from fsl.features.arrays import read_features
from fsl.picture_folders import unlabelled_pictures
from runs.cache import Store
from runs.labelling.label_config import PileConfig
from runs.own_data.page import as_utf8

if TYPE_CHECKING:
    from clustering.foundation.progress import Progress
    from fsl.features.image_encoder import ImageEncoder

FEW_COLUMNS = 32  # columns of numbers up to which they are measurements with units of their own


@dataclass(frozen=True, eq=False)
class Pile:
    """N items.

    Attributes:
        name: name of the folder or file.
        ids: identity of each item: of a picture, by its path in the folder and its content; of a row, by its number
            and the content of the file.
        titles: path of each picture in the folder, or number of each row, from 0.
        features: (N, D) float32 features.
        fingerprint: changes when an item does.
        is_folder: whether the items are the pictures of a folder.
        pictures: file of each item's picture, None for an item without.
        columns: text of each item, by column.
        broken: error messages of pictures that cannot be read.
        encoder: the network, if there is one.
    """

    name: str
    ids: tuple[str, ...]
    titles: tuple[str, ...]
    features: NDArray[np.float32]
    fingerprint: str
    is_folder: bool
    pictures: Sequence[str | None]
    columns: Mapping[str, Sequence[str]] = field(default_factory=dict)
    broken: tuple[str, ...] = ()
    encoder: "ImageEncoder | None" = None

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def noun(self) -> str:
        """What an item is."""
        return "picture" if self.is_folder else "row"


def read_pile(config: PileConfig, store: Store, progress: "Progress") -> Pile:
    """Read the items; the features of pictures are computed, or read from the cache.

    Raises:
        InputError: a picture, column or file cannot be used.
    """
    pile = _pictures(config, store, progress) if config.is_folder else _rows(config)
    if len(pile) < 2:
        raise InputError(f"{config.pile}: has {len(pile)} {pile.noun}{'s' * (len(pile) != 1)}; give at least two")
    finite = np.isfinite(pile.features).all(axis=1)
    if not finite.all():
        row = int((~finite).argmax())
        item = pile.titles[row] if pile.is_folder else f"row {row}"
        raise InputError(f"{config.pile}: the features of {item} are missing or infinite; remove it")
    return pile


def _pictures(config: PileConfig, store: Store, progress: "Progress") -> Pile:
    from fsl.features.image_encoder import ImageEncoder
    from runs.own_data.picture_features import encode

    try:
        files = unlabelled_pictures(config.place)
    except InputError as error:
        raise InputError(str(error).removeprefix("query: ")) from None
    assert config.backbone is not None
    encoder = ImageEncoder.of(config.backbone, weights=config.pretrained, device=config.device)
    encoded = encode(files, encoder, store, progress, skip=config.broken == "skip", known={})
    kept = encoded.kept.tolist()
    names = [os.path.relpath(files[row], config.place) for row in kept]
    ids = tuple(fingerprint(name, encoded.digests[row]) for name, row in zip(names, kept, strict=True))
    return Pile(
        name=as_utf8(config.place.resolve().name),
        ids=ids,
        titles=tuple(map(as_utf8, names)),
        features=encoded.features.numpy(),
        fingerprint=fingerprint(*ids),
        is_folder=True,
        pictures=encoded.files,
        broken=encoded.broken,
        encoder=encoder,
    )


def _rows(config: PileConfig) -> Pile:
    features = _features(config)
    content = fingerprint_of_files([config.place])
    rows = range(len(features))
    pictures: Sequence[str | None] = [None] * len(features)
    columns: Mapping[str, Sequence[str]] = {}
    if config.pictures is not None:
        pictures = unlabelled_pictures(config.pictures)
        if len(pictures) != len(features):
            raise InputError(
                f"pictures: {config.pictures} has {len(pictures):,} pictures, but {config.pile} has {len(features):,} "
                "rows; give the folder of the pictures that were encoded"
            )
        columns = {"file": [as_utf8(os.path.relpath(str(file), config.pictures)) for file in pictures]}
    elif config.is_table:
        from runs.labelling.shown_columns import read_shown

        pictures, columns = read_shown(config, len(features))
    return Pile(
        name=as_utf8(config.place.name),
        ids=tuple(f"{content[:8]}-{row}" for row in rows),
        titles=tuple(map(str, rows)),
        features=features.astype(np.float32, copy=False),
        fingerprint=content,
        is_folder=False,
        pictures=pictures,
        columns=columns,
    )


def _features(config: PileConfig) -> NDArray[np.floating]:
    """(N, D) features of a table or file.

    At most `FEW_COLUMNS` columns of numbers are standardised, since each may have its own unit; more are an embedding.
    """
    try:
        if config.place.suffix.lower() in (".csv", ".tsv"):
            from runs.labelling.shown_columns import numbers_of_csv

            return _standardised(numbers_of_csv(config))
        names = config.features or (None,)
        parts = [read_features(config.place, name, option="features") for name in names]
    except InputError as error:
        raise error if str(error).startswith(str(config.place)) else InputError(f"features: {error}") from error
    together = np.concatenate(parts, axis=1)
    return _standardised(together) if all(part.shape[1] == 1 for part in parts) else together


def _standardised(columns: NDArray[np.floating]) -> NDArray[np.floating]:
    """Columns (N, D) with mean 0 and variance 1, or 0 if constant; unchanged if they are many or not finite."""
    if columns.shape[1] > FEW_COLUMNS or not len(columns) or not np.isfinite(columns).all():
        return columns
    deviation = columns.std(axis=0)
    scaled: NDArray[np.floating] = (columns - columns.mean(axis=0)) / np.where(deviation > 0, deviation, 1)
    return scaled
