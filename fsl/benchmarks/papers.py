"""The benchmarks of papers that are distributed as files: their classes, numbers of pictures, and preprocessing."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from clustering.files.pictures import Fit
from fsl.benchmarks.augmentation import Augmentation
from fsl.benchmarks.benchmark import Split
from fsl.benchmarks.listed import Classes, ListedBenchmark, class_lists


@dataclass(frozen=True)
class MiniImageNet(ListedBenchmark):
    """mini-ImageNet, in the split of Ravi and Larochelle (ICLR 2017): 64 base, 16 validation and 20 novel classes
    of 600 pictures, 84 x 84 RGB.

    Networks are tested on the whole stored pictures, normalised with the mean and standard deviation of ImageNet. (The
    papers resize a picture to 96 pixels and crop the central 84 pixels.)
    """

    name: ClassVar[str] = "mini"
    classes: ClassVar[Classes] = class_lists("mini")
    each: ClassVar[int] = 600
    home: ClassVar[str] = (
        "the README of github.com/mileyan/simple_shot links the pictures, "
        "github.com/renmengye/few-shot-ssl-public and github.com/gidariss/FewShotWithoutForgetting pickle caches; "
        "the terms of ImageNet hold"
    )
    wanted: ClassVar[str] = (
        "train.csv, val.csv and test.csv beside images/, a folder of pictures for each of the 100 classes, a "
        "pickle cache (mini-imagenet-cache-train.pkl ...), or the shards base-0.npz ..., val.npz and novel.npz of "
        "docs/how_to/benchmarks.md"
    )


@dataclass(frozen=True)
class TieredImageNet(ListedBenchmark):
    """tiered-ImageNet (Ren et al., ICLR 2018): 351 base, 97 validation and 160 novel classes, 84 x 84 RGB.

    No super-class has classes in two splits. The authors' caches, and the lists made from them, have other names or
    numbers of classes. Therefore, only pictures in folders named by synset are checked by name; the others are checked
    by their counts. A cache is loaded completely and needs as much memory as the size of its file; folders need little.
    """

    name: ClassVar[str] = "tiered"
    classes: ClassVar[Classes] = class_lists("tiered")
    images: ClassVar[Mapping[Split, int]] = {"base": 448_695, "validation": 124_261, "novel": 206_209}
    home: ClassVar[str] = (
        "github.com/renmengye/few-shot-ssl-public links the cache (tiered-imagenet.tar); the terms of ImageNet hold"
    )
    wanted: ClassVar[str] = (
        "the cache (train_images_png.pkl or train_images.npz, train_labels.pkl ...), train.csv, val.csv "
        "and test.csv beside images/ or data/, or a folder of pictures for each of the 608 synsets"
    )


@dataclass(frozen=True)
class Cub(ListedBenchmark):
    """CUB-200-2011 (Wah et al. 2011) in the split of Chen et al. (ICLR 2019): 100 base, 50 validation and 50 novel
    classes of about 59 pictures, 84 x 84 RGB.

    In the order of class numbers, every second class is a base class, and every second of the others is a validation
    class. The bounding boxes are not used: pictures are cropped to the largest central square, which keeps the shape of
    the birds.
    """

    name: ClassVar[str] = "cub"
    fit: ClassVar[Fit] = "crop"
    classes: ClassVar[Classes] = class_lists("cub")
    images: ClassVar[Mapping[Split, int]] = {"base": 5_885, "validation": 2_950, "novel": 2_953}
    home: ClassVar[str] = "CUB_200_2011.tgz from data.caltech.edu/records/65de6-vp158"
    wanted: ClassVar[str] = (
        "images/001.Black_footed_Albatross ..., as it is unpacked (CUB_200_2011), or train.csv, val.csv and "
        "test.csv beside images/"
    )


@dataclass(frozen=True)
class Cifar(ListedBenchmark):
    """Pictures of CIFAR-100, 32 x 32 RGB, with normalisation and augmentation of MetaOptNet (Lee et al., CVPR 2019)."""

    size: ClassVar[int] = 32
    mean: ClassVar[tuple[float, ...]] = (0.5074, 0.4867, 0.4411)
    std: ClassVar[tuple[float, ...]] = (0.2675, 0.2566, 0.2763)
    augmentation: ClassVar[Augmentation] = Augmentation(
        translation=0.125, flip=True, brightness=0.4, contrast=0.4, saturation=0.4
    )


@dataclass(frozen=True)
class CifarFs(Cifar):
    """CIFAR-FS (Bertinetto et al., ICLR 2019): 64 base, 16 validation and 20 novel classes of 600 pictures, 32 x 32
    RGB."""

    name: ClassVar[str] = "cifar_fs"
    classes: ClassVar[Classes] = class_lists("cifar_fs")
    each: ClassVar[int] = 600
    home: ClassVar[str] = "github.com/kjunelee/MetaOptNet links CIFAR_FS.zip, github.com/bertinetto/r2d2 cifar100.zip"
    wanted: ClassVar[str] = (
        "CIFAR_FS_train.pickle, CIFAR_FS_val.pickle and CIFAR_FS_test.pickle, or a folder of pictures for each "
        "of the 100 classes (apple ...)"
    )


@dataclass(frozen=True)
class Fc100(Cifar):
    """FC100 (Oreshkin et al., NeurIPS 2018): 60 base, 20 validation, 20 novel classes of 600 pictures, 32 x 32 RGB; no
    super-class is in two splits."""

    name: ClassVar[str] = "fc100"
    classes: ClassVar[Classes] = class_lists("fc100")
    each: ClassVar[int] = 600
    home: ClassVar[str] = "github.com/kjunelee/MetaOptNet links FC100.zip"
    wanted: ClassVar[str] = (
        "FC100_train.pickle, FC100_val.pickle and FC100_test.pickle, or a folder of pictures for each of the "
        "100 classes of CIFAR-100 (apple ...)"
    )


@dataclass(frozen=True)
class INat(ListedBenchmark):
    """meta-iNat (Wertheimer and Hariharan, CVPR 2019): 1,135 species of iNaturalist 2017 with 50 to 1,000 pictures,
    squeezed to 84 x 84 RGB; 227 are novel.

    The other 908 species are base classes. There are no separate validation classes: LaplacianShot's lists validate on
    the base pictures, and here every tenth base class is used for validation. This validation accuracy does not measure
    the accuracy on new classes; the papers keep the last epoch and tune no parameters.

    The papers use a single task of all novel pictures, divided by the authors: a fifth of each class, rounded down, is
    support (repr), and the others are queries. Each class has its support first, as `sampler=whole_split
    sampler.support=first` expects.
    """

    name: ClassVar[str] = "inat"
    validates_on_base: ClassVar[bool] = True
    classes: ClassVar[Classes] = class_lists("inat")
    unlisted: ClassVar[Mapping[Split, int]] = {"base": 908, "validation": 90}
    images: ClassVar[Mapping[Split, int]] = {"novel": 46_374}
    home: ClassVar[str] = "github.com/daviswer/fewshotlocal makes it from the pictures of iNaturalist 2017"
    wanted: ClassVar[str] = (
        "the folders train/, repr/ and query/, each with a folder of pictures for each class by number, or "
        "train.csv, repr.csv and query.csv beside them"
    )
