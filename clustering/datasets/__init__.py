"""Data sets to cluster. To add one, write a file in this folder and add a line to this table."""

from clustering.foundation.plugins import Plugins

DATASETS = Plugins(
    kind="dataset",
    table={
        "digits": "clustering.datasets.picture_files:Digits",
        "digits_uneven": "clustering.datasets.picture_files:DigitsUneven",
        "spirals": "clustering.datasets.generated:Spirals",
        "bars": "clustering.datasets.generated:Bars",
        "predictions": "clustering.datasets.generated:Predictions",
        "table": "clustering.datasets.table:Table",
        "folder": "clustering.datasets.folder:Folder",
        "features": "clustering.datasets.features:Features",
        "mnist": "clustering.datasets.picture_files:MNIST",
        "mnist_small": "clustering.datasets.picture_files:MNISTSmall",
        "usps": "clustering.datasets.picture_files:USPS",
        "mnist_uneven": "clustering.datasets.picture_files:MNISTUneven",
        "shuttle": "clustering.datasets.paper_files:Shuttle",
        "cifar10": "clustering.datasets.picture_files:CIFAR10",
        "cifar100": "clustering.datasets.picture_files:CIFAR100",
        "magic": "clustering.datasets.paper_files:MAGIC",
        "r8": "clustering.datasets.paper_files:R8",
        "mnist_code": "clustering.datasets.paper_files:MNISTCode",
        "mnist_gan": "clustering.datasets.paper_files:MNISTGAN",
        "labelme": "clustering.datasets.paper_files:LabelMe",
        "ytf": "clustering.datasets.paper_files:YTF",
        "reuters_code": "clustering.datasets.paper_files:ReutersCode",
    },
    group="transduce.datasets",
)
