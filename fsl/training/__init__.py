"""Base training: a backbone and a linear classifier learn to tell the base classes apart.

Few-shot inference, which trains no backbone, lies in `fsl.strategies`.
"""
