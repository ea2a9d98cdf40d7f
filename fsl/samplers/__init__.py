"""Samplers of tasks. To add one, write a class and add a line to this table."""

from clustering.foundation.plugins import Plugins

SAMPLERS = Plugins(
    kind="sampler",
    table={
        "balanced": "fsl.samplers.drawn:Balanced",
        "dirichlet": "fsl.samplers.drawn:Dirichlet",
        "few_classes": "fsl.samplers.drawn:FewClasses",
        "named_classes": "fsl.samplers.drawn:NamedClasses",
        "batches": "fsl.samplers.whole:Batches",
        "whole_split": "fsl.samplers.whole:WholeSplit",
        "file": "fsl.samplers.whole:File",
    },
    group="transduce.samplers",
)
