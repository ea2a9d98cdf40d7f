"""Weights of networks on disk: own checkpoints, and those that other programs wrote, read without running them.

Training lies in `fsl.training`.
"""
