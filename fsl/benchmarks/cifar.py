"""Base class of the benchmarks with pictures of CIFAR-100."""

from dataclasses import dataclass
from typing import ClassVar

from fsl.benchmarks.augmentation import Augmentation
from fsl.benchmarks.listed import ListedBenchmark


@dataclass(frozen=True)
class Cifar(ListedBenchmark):
    """Pictures of CIFAR-100, 32 x 32 RGB, with normalisation and augmentation of MetaOptNet (Lee et al., CVPR 2019)."""

    size: ClassVar[int] = 32
    mean: ClassVar[tuple[float, ...]] = (0.5074, 0.4867, 0.4411)
    std: ClassVar[tuple[float, ...]] = (0.2675, 0.2566, 0.2763)
    augmentation: ClassVar[Augmentation] = Augmentation(
        translation=0.125, flip=True, brightness=0.4, contrast=0.4, saturation=0.4
    )
