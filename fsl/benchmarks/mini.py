"""mini-ImageNet: 100 classes of ImageNet with 600 pictures each, in the split of Ravi and Larochelle (ICLR 2017)."""

from dataclasses import dataclass
from typing import ClassVar

from fsl.benchmarks.benchmark import Split
from fsl.benchmarks.catalogue import Catalogue, numbered_pictures
from fsl.benchmarks.listed import ListedBenchmark

# The synsets of ImageNet in the authors' lists train.csv, val.csv and test.csv.
BASE = """
n01532829 n01558993 n01704323 n01749939 n01770081 n01843383 n01910747 n02074367 n02089867 n02091831 n02101006 n02105505
n02108089 n02108551 n02108915 n02111277 n02113712 n02120079 n02165456 n02457408 n02606052 n02687172 n02747177 n02795169
n02823428 n02966193 n03017168 n03047690 n03062245 n03207743 n03220513 n03337140 n03347037 n03400231 n03476684 n03527444
n03676483 n03838899 n03854065 n03888605 n03908618 n03924679 n03998194 n04067472 n04243546 n04251144 n04258138 n04275548
n04296562 n04389033 n04435653 n04443257 n04509417 n04515003 n04596742 n04604644 n04612504 n06794110 n07584110 n07697537
n07747607 n09246464 n13054560 n13133613
"""
VALIDATION = """
n01855672 n02091244 n02114548 n02138441 n02174001 n02950826 n02971356 n02981792 n03075370 n03417042 n03535780 n03584254
n03770439 n03773504 n03980874 n09256479
"""
NOVEL = """
n01930112 n01981276 n02099601 n02110063 n02110341 n02116738 n02129165 n02219486 n02443484 n02871525 n03127925 n03146219
n03272010 n03544143 n03775546 n04146614 n04149813 n04418357 n04522168 n07613480
"""
CLASSES: dict[Split, tuple[str, ...]] = {
    "base": tuple(BASE.split()),
    "validation": tuple(VALIDATION.split()),
    "novel": tuple(NOVEL.split()),
}


def pictures_of(name: str) -> frozenset[str]:
    """The names of a class's pictures in the authors' lists, such as n0153282900000005.jpg."""
    return frozenset(f"{name}{number:08d}.jpg" for number in numbered_pictures("mini_pictures").get(name, ()))


@dataclass(frozen=True)
class MiniImageNet(ListedBenchmark):
    """mini-ImageNet: 64 base, 16 validation and 20 novel classes of 600 pictures, 84 x 84 RGB.

    Networks are tested on the whole stored pictures, normalised with the mean and standard deviation of ImageNet. (The
    papers resize a picture to 96 pixels and crop the central 84 pixels.)
    """

    name: ClassVar[str] = "mini"
    catalogue: ClassVar[Catalogue] = Catalogue(
        name="mini",
        classes=CLASSES,
        counts={"base": 64, "validation": 16, "novel": 20},
        images={"base": 38_400, "validation": 9_600, "novel": 12_000},
        each=600,
        pictures=pictures_of,
        home="the README of github.com/mileyan/simple_shot links the pictures, "
        "github.com/renmengye/few-shot-ssl-public and github.com/gidariss/FewShotWithoutForgetting pickle caches; "
        "the terms of ImageNet hold",
        wanted="train.csv, val.csv and test.csv beside images/, a folder of pictures for each of the 100 classes, a "
        "pickle cache (mini-imagenet-cache-train.pkl ...), or the shards base-0.npz ..., val.npz and novel.npz of "
        "docs/how_to/benchmarks.md",
    )
