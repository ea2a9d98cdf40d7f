"""Samplers: how tasks are drawn. To add one: a file in this folder and a line in this table."""

from clustering.plugins import Plugins

SAMPLERS = Plugins(
    kind="sampler",
    table={
        "balanced": "fsl.samplers.balanced:Balanced",
        "file": "fsl.samplers.file:File",
    },
    group="transduce.samplers",
)
