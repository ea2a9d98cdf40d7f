"""Few-shot strategies. To add one: a file in this folder and a line in this table."""

from clustering.plugins import Plugins

STRATEGIES = Plugins(
    kind="strategy",
    table={
        "simpleshot": "fsl.strategies.simpleshot:SimpleShot",
        "laplacianshot": "fsl.strategies.laplacianshot:LaplacianShot",
    },
    group="transduce.strategies",
)
