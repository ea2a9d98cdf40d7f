"""Samplers of tasks. To add one, write a file in this folder and add a line to this table."""

from clustering.foundation.plugins import Plugins

SAMPLERS = Plugins(
    kind="sampler",
    table={
        "balanced": "fsl.samplers.balanced:Balanced",
        "dirichlet": "fsl.samplers.dirichlet:Dirichlet",
        "few_classes": "fsl.samplers.few_classes:FewClasses",
        "named_classes": "fsl.samplers.named_classes:NamedClasses",
        "batches": "fsl.samplers.batches:Batches",
        "whole_split": "fsl.samplers.whole_split:WholeSplit",
        "file": "fsl.samplers.file:File",
    },
    group="transduce.samplers",
)
