"""Figures of the paper on discriminative entropy clustering, one a file.

What figures share lies in `runs.figures`.
"""
