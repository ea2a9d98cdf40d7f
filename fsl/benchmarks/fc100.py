"""FC100: CIFAR-100 split by super-class (Oreshkin et al., NeurIPS 2018)."""

from dataclasses import dataclass
from typing import ClassVar

from fsl.benchmarks.catalogue import Catalogue, class_lists
from fsl.benchmarks.cifar import Cifar


@dataclass(frozen=True)
class Fc100(Cifar):
    """FC100: 60 base, 20 validation, 20 novel classes of 600 pictures, 32 x 32 RGB; no super-class is in two splits."""

    name: ClassVar[str] = "fc100"
    catalogue: ClassVar[Catalogue] = Catalogue(
        name="fc100",
        classes=class_lists("fc100"),
        counts={"base": 60, "validation": 20, "novel": 20},
        images={"base": 36_000, "validation": 12_000, "novel": 12_000},
        each=600,
        home="github.com/kjunelee/MetaOptNet links FC100.zip",
        wanted="FC100_train.pickle, FC100_val.pickle and FC100_test.pickle, or a folder of pictures for each of the "
        "100 classes of CIFAR-100 (apple ...)",
    )
