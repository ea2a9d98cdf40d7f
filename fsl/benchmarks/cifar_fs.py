"""CIFAR-FS: CIFAR-100 with classes split at random (Bertinetto et al., ICLR 2019)."""

from dataclasses import dataclass
from typing import ClassVar

from fsl.benchmarks.catalogue import Catalogue, class_lists
from fsl.benchmarks.cifar import Cifar


@dataclass(frozen=True)
class CifarFs(Cifar):
    """CIFAR-FS: 64 base, 16 validation and 20 novel classes of 600 pictures, 32 x 32 RGB."""

    name: ClassVar[str] = "cifar_fs"
    catalogue: ClassVar[Catalogue] = Catalogue(
        name="cifar_fs",
        classes=class_lists("cifar_fs"),
        counts={"base": 64, "validation": 16, "novel": 20},
        images={"base": 38_400, "validation": 9_600, "novel": 12_000},
        each=600,
        home="github.com/kjunelee/MetaOptNet links CIFAR_FS.zip, github.com/bertinetto/r2d2 cifar100.zip",
        wanted="CIFAR_FS_train.pickle, CIFAR_FS_val.pickle and CIFAR_FS_test.pickle, or a folder of pictures for each "
        "of the 100 classes (apple ...)",
    )
