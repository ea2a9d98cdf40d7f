"""meta-iNat: species with very unequal numbers of pictures (Wertheimer and Hariharan, CVPR 2019)."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fsl.benchmarks.benchmark import Split
from fsl.benchmarks.catalogue import Catalogue, class_lists
from fsl.benchmarks.encoded import EncodedPictures
from fsl.benchmarks.listed import ListedBenchmark, Listing, listing_of

HELD_OUT = 10  # every so many-th base class is validation


@dataclass(frozen=True)
class INat(ListedBenchmark):
    """meta-iNat: 1,135 species of iNaturalist 2017 with 50 to 1,000 pictures, squeezed to 84 x 84 RGB; 227 are novel.

    The authors have 908 base classes and none for validation; here every tenth of them is, so that 818 are left. The
    task of the papers is one of all novel pictures: `sampler=whole_split`.
    """

    name: ClassVar[str] = "inat"
    stored: ClassVar[tuple[Split, ...]] = ("base", "novel")
    catalogue: ClassVar[Catalogue] = Catalogue(
        name="inat",
        classes=class_lists("inat"),
        counts={"base": 818, "validation": 90, "novel": 227},
        images={"base": 0, "validation": 0, "novel": 46_374},
        home="github.com/daviswer/fewshotlocal makes it from the pictures of iNaturalist 2017",
        wanted="the folders train/, repr/ and query/, each with a folder of pictures for each class by number, or "
        "train.csv, repr.csv and query.csv beside them",
    )

    def listing(self, split: Split) -> Listing:
        """What is there of a split, whole or not.

        Raises:
            InputError: a file that cannot be read.
        """
        if split == "novel":
            return super().listing(split)
        found = listing_of(self.catalogue, self.places(), "base", self.size)
        kept = np.arange(len(found.class_names)) % HELD_OUT == HELD_OUT - 1
        kept = kept if split == "validation" else ~kept
        rows = np.flatnonzero(kept[found.labels]).tolist()
        pictures = EncodedPictures(
            [found.pictures.names[row] for row in rows], lambda index: found.pictures.read(rows[index]), self.size
        )
        names = tuple(name for name, is_kept in zip(found.class_names, kept, strict=True) if is_kept)
        return Listing(pictures, np.cumsum(kept)[found.labels[rows]] - 1, names, found.strangers)
