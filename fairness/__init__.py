"""Variational fair clustering: a fairness term beside the terms of `clustering`, through the same optimiser."""
