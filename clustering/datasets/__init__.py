"""Data sets to cluster. To add one, write a file in this folder and add a line to this table."""

from clustering.foundation.plugins import Plugins

DATASETS = Plugins(
    kind="dataset",
    table={
        "digits": "clustering.datasets.digits:Digits",
        "digits_uneven": "clustering.datasets.digits:DigitsUneven",
        "spirals": "clustering.datasets.generated:Spirals",
        "bars": "clustering.datasets.generated:Bars",
        "predictions": "clustering.datasets.generated:Predictions",
        "table": "clustering.datasets.table:Table",
        "folder": "clustering.datasets.folder:Folder",
        "features": "clustering.datasets.features:Features",
        "mnist": "clustering.datasets.papers:MNIST",
        "mnist_small": "clustering.datasets.papers:MNISTSmall",
        "usps": "clustering.datasets.papers:USPS",
        "mnist_uneven": "clustering.datasets.papers:MNISTUneven",
        "shuttle": "clustering.datasets.papers:Shuttle",
        "cifar10": "clustering.datasets.papers:CIFAR10",
        "cifar100": "clustering.datasets.papers:CIFAR100",
        "magic": "clustering.datasets.papers:MAGIC",
        "r8": "clustering.datasets.papers:R8",
        "mnist_code": "clustering.datasets.papers:MNISTCode",
        "mnist_gan": "clustering.datasets.papers:MNISTGAN",
        "labelme": "clustering.datasets.papers:LabelMe",
        "ytf": "clustering.datasets.papers:YTF",
        "reuters_code": "clustering.datasets.papers:ReutersCode",
    },
    group="transduce.datasets",
)
