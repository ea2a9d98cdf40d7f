"""tiered-ImageNet: 608 classes of ImageNet, split by super-class (Ren et al., ICLR 2018)."""

from dataclasses import dataclass
from typing import ClassVar

from fsl.benchmarks.catalogue import Catalogue, class_lists
from fsl.benchmarks.listed import ListedBenchmark


@dataclass(frozen=True)
class TieredImageNet(ListedBenchmark):
    """tiered-ImageNet: 351 base, 97 validation and 160 novel classes, 84 x 84 RGB.

    No super-class has classes in two splits. The authors' caches, and the lists made from them, have other names or
    numbers of classes. Therefore, only pictures in folders named by synset are checked by name; the others are checked
    by their counts. A cache is loaded completely and needs as much memory as the size of its file; folders need little.
    """

    name: ClassVar[str] = "tiered"
    catalogue: ClassVar[Catalogue] = Catalogue(
        name="tiered",
        classes=class_lists("tiered"),
        counts={"base": 351, "validation": 97, "novel": 160},
        images={"base": 448_695, "validation": 124_261, "novel": 206_209},
        home="github.com/renmengye/few-shot-ssl-public links the cache (tiered-imagenet.tar); the terms of "
        "ImageNet hold",
        wanted="the cache (train_images_png.pkl or train_images.npz, train_labels.pkl ...), train.csv, val.csv "
        "and test.csv beside images/ or data/, or a folder of pictures for each of the 608 synsets",
    )
