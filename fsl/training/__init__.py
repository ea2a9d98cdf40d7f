"""Base training: a backbone and a classifier are trained on the base classes.

Few-shot inference, which does not train a backbone, is in `fsl.strategies`.
"""
