"""Weights of networks on disk: checkpoints of this project, and weights of other programs, read without running code.

Training lies in `fsl.training`.
"""
