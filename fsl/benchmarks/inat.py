"""meta-iNat: species with very unequal numbers of pictures (Wertheimer and Hariharan, CVPR 2019)."""

from collections import Counter
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from fsl.benchmarks.benchmark import Split
from fsl.benchmarks.catalogue import Catalogue, class_lists
from fsl.benchmarks.encoded import EncodedPictures
from fsl.benchmarks.listed import ListedBenchmark, Listing

VALIDATES = 10  # every 10th base class is also a validation class
SUPPORT = 5  # a fifth of the pictures of a novel class are support


@dataclass(frozen=True)
class INat(ListedBenchmark):
    """meta-iNat: 1,135 species of iNaturalist 2017 with 50 to 1,000 pictures, squeezed to 84 x 84 RGB; 227 are novel.

    The other 908 species are base classes. There are no separate validation classes: LaplacianShot's lists validate on
    the base pictures, and here every tenth base class is used for validation. This validation accuracy does not measure
    the accuracy on new classes; the papers keep the last epoch and tune no parameters.

    The papers use a single task of all novel pictures, divided by the authors: a fifth of each class, rounded down, is
    support (repr), and the others are queries. Each class has its support first, as `sampler=whole_split
    sampler.support=first` expects.
    """

    name: ClassVar[str] = "inat"
    stored: ClassVar[tuple[Split, ...]] = ("base", "novel")
    validates_on_base: ClassVar[bool] = True
    catalogue: ClassVar[Catalogue] = Catalogue(
        classes=class_lists("inat"),
        counts={"base": 908, "validation": 90, "novel": 227},
        images={"base": 0, "validation": 0, "novel": 46_374},
        home="github.com/daviswer/fewshotlocal makes it from the pictures of iNaturalist 2017",
        wanted="the folders train/, repr/ and query/, each with a folder of pictures for each class by number, or "
        "train.csv, repr.csv and query.csv beside them",
    )

    def listing(self, split: Split) -> Listing:
        """The pictures of a split that are present, complete or not. Novel classes have their support first.

        Raises:
            InputError: a file cannot be read.
        """
        listed = super().listing("base" if split == "validation" else split)
        if split == "novel":
            return replace(listed, faults=self._undivided(listed))
        return _validating(listed) if split == "validation" else listed

    def _undivided(self, listing: Listing) -> list[str]:
        """Differences from the authors' division of the novel pictures into support and query."""
        counts = np.bincount(listing.labels, minlength=len(listing.class_names)).tolist()
        support = Counter[str]()
        for place in self.places():
            if place.role == "support":
                support.update(place.open().classes)
        occupied = [(name, count) for name, count in zip(listing.class_names, counts, strict=True) if count]
        wrong = [(name, count) for name, count in occupied if support[name] != max(count // SUPPORT, 1)]
        if not wrong:
            return []
        name, count = wrong[0]
        right = max(count // SUPPORT, 1)
        return [
            f"{support[name]} of the {count} pictures of class {name} are in repr, but it should have {right} (a "
            f"fifth, rounded down), and query the others ({len(wrong)} classes differ)"
        ]


def _validating(listing: Listing) -> Listing:
    """Every tenth class of a listing."""
    kept = np.arange(len(listing.class_names)) % VALIDATES == VALIDATES - 1
    rows = np.flatnonzero(kept[listing.labels]).tolist()
    pictures = EncodedPictures(
        [listing.pictures.names[row] for row in rows],
        lambda index: listing.pictures.read(rows[index]),
        listing.pictures.size,
    )
    names = tuple(name for name, is_kept in zip(listing.class_names, kept, strict=True) if is_kept)
    return Listing(pictures, np.cumsum(kept)[listing.labels[rows]] - 1, names, {})
