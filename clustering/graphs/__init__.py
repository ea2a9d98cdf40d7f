"""Neighbour graphs: search, construction, validation, spectra and cuts.

The Laplacian term of a graph is in `clustering.optimiser`.
"""
