"""Few-shot benchmarks. To add one: a file in this folder and a line in this table."""

from clustering.plugins import Plugins

BENCHMARKS = Plugins(
    kind="benchmark",
    table={
        "glyphs": "fsl.benchmarks.glyphs:Glyphs",
        "mini": "fsl.benchmarks.mini:MiniImageNet",
        "omniglot": "fsl.benchmarks.omniglot:Omniglot",
    },
    group="transduce.benchmarks",
)
