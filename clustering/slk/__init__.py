"""Scalable Laplacian K-modes: the estimator, its race of starts, and the published run.

What it minimises lies in `clustering.optimiser`, its graphs in `clustering.graphs`.
"""
