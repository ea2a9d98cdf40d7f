"""The items of a pile, with their features: pictures of a folder, rows of a table, or rows of a file of features."""

import fnmatch
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from clustering.datasets.table import EXACT
from clustering.feature_files import read_features
from clustering.files.pictures import PICTURES
from clustering.files.regular import fingerprint_of_files
from clustering.files.tables import TableFile, read_table
from clustering.foundation.errors import InputError, unknown
from clustering.foundation.fingerprint import fingerprint
from fsl.picture_folders import unlabelled_pictures
from runs.cache import Store
from runs.labelling.label_config import PileConfig
from runs.own_data.own_config import DEFAULT_NETWORK
from runs.own_data.page import as_utf8

if TYPE_CHECKING:
    from clustering.foundation.progress import Progress
    from fsl.features.image_encoder import ImageEncoder

FEW_COLUMNS = 32  # columns of numbers up to which they are measurements with units of their own
LONGEST = 2000  # characters of a cell on the page


@dataclass(frozen=True, eq=False)
class Pile:
    """N items.

    Attributes:
        name: name of the folder or file.
        ids: identity of each item: of a picture, by its path in the folder and its content; of a row, by its number
            and the content of the file.
        titles: path of each picture in the folder, or number of each row, from 0.
        features: (N, D) features, float32 or, where it would lose digits, another type.
        is_folder: whether the items are the pictures of a folder.
        pictures: file of each item's picture, None for an item without.
        columns: text of each item, by column.
        encoder: the network, if there is one.
    """

    name: str
    ids: tuple[str, ...]
    titles: tuple[str, ...]
    features: NDArray[Any]
    is_folder: bool
    pictures: Sequence[str | None]
    columns: Mapping[str, Sequence[str]] = field(default_factory=dict)
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
        title = pile.titles[int((~finite).argmax())]
        item = title if pile.is_folder else f"row {title}"
        raise InputError(f"{config.pile}: the features of {item} are missing or infinite; remove it")
    return pile


def _pictures(config: PileConfig, store: Store, progress: "Progress") -> Pile:
    from fsl.features.image_encoder import ImageEncoder
    from runs.own_data.pictures import encode

    try:
        files = unlabelled_pictures(config.place)
    except InputError as error:
        raise InputError(str(error).removeprefix("query: ")) from None
    if config.backbone is None:
        progress.note(DEFAULT_NETWORK)
    encoder = ImageEncoder.of(device=config.device, **config.network)
    encoded = encode(files, encoder, store, progress, skip=config.broken == "skip")
    kept = encoded.kept.tolist()
    names = [os.path.relpath(files[row], config.place) for row in kept]
    ids = tuple(fingerprint(name, encoded.digests[row]) for name, row in zip(names, kept, strict=True))
    return Pile(
        name=as_utf8(config.place.resolve().name),
        ids=ids,
        titles=tuple(map(as_utf8, names)),
        features=encoded.features.numpy(),
        is_folder=True,
        pictures=encoded.files,
        encoder=encoder,
    )


def _rows(config: PileConfig) -> Pile:
    content = fingerprint_of_files([config.place])
    is_csv = config.place.suffix.lower() in (".csv", ".tsv")
    table = read_table(config.place) if is_csv else None
    features = _standardised(_numbers(config, table)) if table is not None else _features(config)
    pictures: Sequence[str | None] = [None] * len(features)
    columns: dict[str, Sequence[str]] = {}
    for name in config.show or ():
        cells = _cells(config, table, name)
        if next((cell for cell in cells if cell), "").lower().endswith(PICTURES) and not any(pictures):
            pictures = [_inside(config, name, row, cell) for row, cell in enumerate(cells)]
        else:
            texts = map(as_utf8, cells)
            columns[name] = [text if len(text) <= LONGEST else f"{text[:LONGEST]}..." for text in texts]
    return Pile(
        name=as_utf8(config.place.name),
        ids=tuple(f"{content[:8]}-{row}" for row in range(len(features))),
        titles=tuple(map(str, range(len(features)))),
        features=features if np.abs(features).max() > EXACT else features.astype(np.float32, copy=False),
        is_folder=False,
        pictures=pictures,
        columns=columns,
    )


def _features(config: PileConfig) -> NDArray[np.floating]:
    """(N, D) features of a file of arrays or a Parquet file."""
    try:
        parts = [read_features(config.place, name, option="features") for name in config.features or (None,)]
    except InputError as error:
        raise error if str(error).startswith(str(config.place)) else InputError(f"features: {error}") from error
    features = np.concatenate(parts, axis=1)
    return _standardised(features) if all(part.shape[1] == 1 for part in parts) else features


def _numbers(config: PileConfig, table: TableFile) -> NDArray[np.floating]:
    """(N, D) numbers of the columns `features` of a CSV file, NaN where a value is missing.

    Raises:
        InputError: no column is given, one does not exist, or has text or ambiguous numbers.
    """
    if not config.features:
        raise InputError(
            f"{config.place}: which columns are features? Choose with --features a,b,c or --features emb_*"
        )
    names = dict[str, None]()
    for pattern in config.features:
        found = [pattern] if pattern in table.names else fnmatch.filter(table.names, pattern)
        names |= dict.fromkeys(found or [pattern])
    return np.stack([table.numbers(name) for name in names], axis=1)


def _standardised(columns: NDArray[np.floating]) -> NDArray[np.floating]:
    """Columns (N, D) of numbers with mean 0 and variance 1, since each may have its own unit; 0 if constant.

    More than `FEW_COLUMNS` are an embedding, which is unchanged, like values that are not finite.
    """
    if columns.shape[1] > FEW_COLUMNS or not len(columns) or not np.isfinite(columns).all():
        return columns
    deviation = columns.std(axis=0)
    scaled: NDArray[np.floating] = (columns - columns.mean(axis=0)) / np.where(deviation > 0, deviation, 1)
    return scaled


def _cells(config: PileConfig, table: TableFile | None, name: str) -> list[str]:
    """The cells of a column of the table, empty where a value is missing."""
    if table is None:
        from pyarrow import parquet

        known = [str(column) for column in parquet.read_schema(config.place).names]
        if name not in known:
            raise InputError(f"{config.place}: {unknown('column', name, known)}")
        frame = parquet.read_table(config.place, columns=[name]).to_pandas()
        column = frame[name] if name in frame else frame.index.to_series()  # the names of rows are a column as well
    else:
        column = table.column(name)
    return ["" if missing else str(cell) for cell, missing in zip(column, column.isna(), strict=True)]


def _inside(config: PileConfig, column: str, row: int, cell: str) -> str | None:
    """The file of a picture, by its path relative to the table's folder; None if there is no such file.

    Raises:
        InputError: the path leads out of the folder, also by a link.
    """
    folder = config.place.parent.resolve()
    file = (folder / cell.replace("\0", "")).resolve()
    if not file.is_relative_to(folder):
        raise InputError(
            f"{config.place}: column {column!r} names {cell!r} in row {row}, outside of the folder of the table; copy "
            "the pictures into it"
        )
    return str(file) if file.is_file() and file.name.lower().endswith(PICTURES) else None
