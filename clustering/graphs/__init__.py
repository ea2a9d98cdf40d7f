"""Neighbour graphs: search, construction, checks, spectra, and cuts of them.

The Laplacian term, which takes a graph, lies in `clustering.optimiser`.
"""
