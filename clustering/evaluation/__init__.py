"""How a clustering is judged on a data set: trials, labels that are granted to methods, profiles of clusters.

The scores themselves are `clustering.metrics`.
"""
