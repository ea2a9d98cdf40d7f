"""Data sets to cluster. To add one, write a file in this folder and add a line to this table."""

from clustering.foundation.plugins import Plugins

DATASETS = Plugins(
    kind="dataset",
    table={
        "digits": "clustering.datasets.digits:Digits",
        "digits_uneven": "clustering.datasets.digits_uneven:DigitsUneven",
        "spirals": "clustering.datasets.spirals:Spirals",
        "bars": "clustering.datasets.bars:Bars",
        "predictions": "clustering.datasets.predictions:Predictions",
        "table": "clustering.datasets.table:Table",
        "folder": "clustering.datasets.folder:Folder",
        "features": "clustering.datasets.features:Features",
        "mnist": "clustering.datasets.mnist:MNIST",
        "mnist_small": "clustering.datasets.mnist_small:MNISTSmall",
        "usps": "clustering.datasets.usps:USPS",
        "mnist_uneven": "clustering.datasets.mnist_uneven:MNISTUneven",
        "shuttle": "clustering.datasets.shuttle:Shuttle",
        "cifar10": "clustering.datasets.cifar:CIFAR10",
        "cifar100": "clustering.datasets.cifar:CIFAR100",
        "magic": "clustering.datasets.magic:MAGIC",
        "r8": "clustering.datasets.r8:R8",
        "mnist_code": "clustering.datasets.stored_features:MNISTCode",
        "mnist_gan": "clustering.datasets.stored_features:MNISTGAN",
        "labelme": "clustering.datasets.stored_features:LabelMe",
        "ytf": "clustering.datasets.stored_features:YTF",
        "reuters_code": "clustering.datasets.stored_features:ReutersCode",
    },
    group="transduce.datasets",
)
