"""Figures of the XSDC paper.

What figures share lies in `runs.figures`.
"""
