"""Base training: a backbone and a classifier are trained on the base classes, with Lightning.

`fsl.training.base.train` runs it. `MODULES` names the Lightning modules of `module=`; an own one is FILE.py:CLASS,
usually a subclass of `fsl.training.module.CrossEntropy`.
"""

from clustering.foundation.plugins import Plugins

MODULES = Plugins("module", {"cross_entropy": "fsl.training.module:CrossEntropy"}, "transduce.modules")
