"""Few-shot benchmarks. To add one, write a file in this folder and add a line to this table."""

from clustering.foundation.plugins import Plugins

BENCHMARKS = Plugins(
    kind="benchmark",
    table={
        "glyphs": "fsl.benchmarks.glyphs:Glyphs",
        "mini": "fsl.benchmarks.papers:MiniImageNet",
        "tiered": "fsl.benchmarks.papers:TieredImageNet",
        "cub": "fsl.benchmarks.papers:Cub",
        "inat": "fsl.benchmarks.papers:INat",
        "cifar_fs": "fsl.benchmarks.papers:CifarFs",
        "fc100": "fsl.benchmarks.papers:Fc100",
        "folder": "fsl.benchmarks.folder:Folder",
        "omniglot": "fsl.benchmarks.omniglot:Omniglot",
    },
    group="transduce.benchmarks",
)
