"""CUB-200-2011: 200 species of birds (Wah et al. 2011) in the split of Chen et al. (ICLR 2019)."""

from dataclasses import dataclass
from typing import ClassVar

from fsl.benchmarks.catalogue import Catalogue, class_lists
from fsl.benchmarks.encoded import Fit
from fsl.benchmarks.listed import ListedBenchmark


@dataclass(frozen=True)
class Cub(ListedBenchmark):
    """CUB-200-2011: 100 base, 50 validation and 50 novel classes of about 59 pictures, 84 x 84 RGB.

    In the order of class numbers, every second class is a base class, and every second of the others is a validation
    class. The bounding boxes are not used: pictures are cropped to the largest central square, which keeps the shape of
    the birds.
    """

    name: ClassVar[str] = "cub"
    fit: ClassVar[Fit] = "crop"
    catalogue: ClassVar[Catalogue] = Catalogue(
        name="cub",
        classes=class_lists("cub"),
        counts={"base": 100, "validation": 50, "novel": 50},
        images={"base": 5_885, "validation": 2_950, "novel": 2_953},
        home="CUB_200_2011.tgz from data.caltech.edu/records/65de6-vp158",
        wanted="images/001.Black_footed_Albatross ..., as it is unpacked (CUB_200_2011), or train.csv, val.csv and "
        "test.csv beside images/",
    )
