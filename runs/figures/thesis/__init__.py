"""Figures of the thesis, one a file.

What figures share lies in `runs.figures`.
"""
