"""Base training: a backbone and a classifier are trained on the base classes, with Lightning.

`fsl.training.base.train` runs it. `MODULES` names the Lightning modules that `module=` of a training may choose; an own
one is `module=FILE.py:CLASS`, usually a subclass of `fsl.training.module.CrossEntropy`.
"""

from clustering.foundation.plugins import Plugins

MODULES = Plugins(
    kind="module",
    table={"cross_entropy": "fsl.training.module:CrossEntropy"},
    group="transduce.modules",
)
