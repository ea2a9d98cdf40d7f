"""A user's own pictures as a benchmark, given as one folder per class or as lists."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Literal

import numpy as np
import pandas as pd

from clustering.files.pictures import Fit
from clustering.files.regular import read_bytes
from clustering.foundation.errors import InputError
from clustering.foundation.fingerprint import fingerprint
from clustering.foundation.parameters import Above, AtLeast, Validated, Within
from clustering.foundation.streams import stream
from fsl.benchmarks.augmentation import Augmentation
from fsl.benchmarks.benchmark import SPLITS, Decoded, Split
from fsl.benchmarks.layouts import FILES, EncodedPictures, folder_of, pictures_by_class, read_lists, relative
from fsl.benchmarks.listed import IMAGENET_MEAN, IMAGENET_STD, PHOTOGRAPHS, size_of

RECIPE = 1  # version; increased if the same files give other images
FEWEST = 2  # minimum number of classes of a split
LAYOUT = (
    "one folder of pictures per class; or train/, val/ and test/ with such folders; or train.csv, val.csv and test.csv "
    "with a file and its class on each line"
)


@dataclass(frozen=True)
class Folder(Validated):
    """Your own pictures, of any size and format, converted to RGB and rotated according to their EXIF data.

    The base, validation and novel classes are given by the folders train, val and test, or by the lists train.csv,
    val.csv and test.csv; otherwise they are drawn at random. A class may only be in one split.

    Attributes:
        root: the folder. Its path is not part of a run's identity, but the names and sizes of its files are.
        size: side in pixels to which pictures are resized.
        fit: "crop" to the central square, or "squeeze".
        split: "given" by folders or lists, "drawn" at random, or "auto": given if possible, else drawn.
        novel, validation: fractions of the classes that are drawn, at least two classes each.
        seed: seed of the random split.
    """

    name: ClassVar[str] = "folder"
    channels: ClassVar[int] = 3
    mean: ClassVar[tuple[float, ...]] = IMAGENET_MEAN
    std: ClassVar[tuple[float, ...]] = IMAGENET_STD
    augmentation: ClassVar[Augmentation] = PHOTOGRAPHS

    root: str | None = None
    size: Annotated[int, AtLeast(8)] = 84
    fit: Fit = "crop"
    split: Literal["auto", "given", "drawn"] = "auto"
    novel: Annotated[float, Above(0), Within(0, 1)] = 0.2
    validation: Annotated[float, Above(0), Within(0, 1)] = 0.16
    seed: int = 0

    def source(self) -> str:
        """Identity of the files: the lists, and the names and sizes of the pictures.

        Raises:
            InputError: see `read`.
        """
        folder, table = folder_of(self.name, self.root, LAYOUT), self._table()
        lines = (
            f"{split} {name} {relative(file, folder)} {size_of(file)}"
            for split, name, file in table[["split", "class_name", "file"]].itertuples(index=False)
        )
        return fingerprint("folder", RECIPE, *lines)

    def read(self, split: Split) -> Decoded:
        """The pictures of a split, (N, 3, size, size), sorted by class and name. Each is decoded on access.

        Raises:
            InputError: there are no pictures, too few classes, a missing split, or a class in two splits.
        """
        table = self._table()
        table = table[table["split"] == split]
        files = table["file"].tolist()
        labels, names = pd.factorize(table["class_name"])
        pictures = EncodedPictures(files, lambda index: read_bytes(files[index]), self.size, self.fit, upright=True)
        return Decoded(pictures, labels, tuple(names))

    def division(self) -> str:
        """The numbers of base, validation and novel classes and the options that change them, for messages.

        Raises:
            InputError: see `read`.
        """
        counts = self._table().groupby("split")["class_name"].nunique()
        listed = ", ".join(f"{counts[split]} {split}" for split in SPLITS)
        of_all = f"The {counts.sum()} classes of benchmark folder are"
        if self.split == "given":
            return f"{of_all} stored as {listed}; move folders, or use split=drawn"
        return (
            f"{of_all} divided into {listed} (novel={self.novel:g} "
            f"validation={self.validation:g}); set novel= and validation= to change this"
        )

    def _table(self) -> pd.DataFrame:
        """The pictures, with columns split, class_name and file, sorted by split and class."""
        folder = folder_of(self.name, self.root, LAYOUT)
        where = f"benchmark folder: {folder} has"
        parts = _given(folder, where)
        if self.split == "given" and not parts:
            raise InputError(f"{where} no train/ and test/, and no train.csv; use split=drawn")
        rows = [part.assign(split=split) for split, some in parts.items() for part in some]
        table = pd.concat(rows or [pictures_by_class(folder, "benchmark folder")], ignore_index=True)
        if parts and self.split != "drawn":
            _check_disjoint(table, where)
        else:
            table["split"] = table["class_name"].map(self._drawn(sorted(set(table["class_name"])), where))
        order = table["split"].map(SPLITS.index).rename("order")
        return table.assign(order=order).sort_values(["order", "class_name"], kind="stable")

    def _drawn(self, names: list[str], where: str) -> dict[str, Split]:
        """The split of each class, at random."""
        shares = [max(FEWEST, round(share * len(names))) for share in (self.novel, self.validation)]
        if len(names) - sum(shares) < FEWEST:
            raise InputError(
                f"{where} {len(names)} classes, of which {shares[0]} would be novel and {shares[1]} validation, and at "
                f"least {FEWEST} base classes must remain; add classes, or lower novel= and validation=. It should "
                f"contain {LAYOUT}. For few classes, use transduce classify, which needs no training"
            )
        order = stream(self.seed, "split of a folder").permutation(len(names))
        novel, validation, base = np.split(order, np.cumsum(shares))
        drawn = dict(zip(SPLITS, (base, validation, novel), strict=True))
        return {names[index]: split for split, rows in drawn.items() for index in rows}


def _given(folder: Path, where: str) -> dict[Split, list[pd.DataFrame]]:
    """The pictures of each split, by its lists or folders; empty if there are none."""
    parts = {split: [rows for _, rows in read_lists(folder, split)] for split in SPLITS}
    if lacking := [split for split in SPLITS if not parts[split]]:
        if len(lacking) < len(SPLITS):
            raise InputError(f"{where} lists, but no {FILES[lacking[0]][0]}.csv; add it")
        children = {child.name.lower(): child for child in folder.iterdir() if child.is_dir()}
        folders = {split: [children[word] for word in FILES[split] if word in children] for split in SPLITS}
        if not (folders["base"] and folders["novel"]):
            return {}
        if not folders["validation"]:
            first, last = folders["base"][0].name, folders["novel"][0].name
            raise InputError(f"{where} {first}/ and {last}/, but no val/; add it, or use split=drawn")
        parts = {split: [pictures_by_class(below, "benchmark folder") for below in folders[split]] for split in SPLITS}
    return parts


def _check_disjoint(table: pd.DataFrame, where: str) -> None:
    """Check that every split has classes and that no class is in two splits."""
    for split in SPLITS:
        if not (table["split"] == split).any():
            raise InputError(f"{where} no pictures of {split} classes; add some")
    for name, splits in table.groupby("class_name")["split"].unique().items():
        if len(splits) > 1:
            raise InputError(
                f"{where} class {name!r} among {splits[0]} and among {splits[1]} classes; novel classes must differ "
                "from the network's training classes: keep it in one split, or use split=drawn"
            )
