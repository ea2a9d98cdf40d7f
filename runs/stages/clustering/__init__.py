"""Clustering as a stage: trials of methods on data sets, and trainings of networks.

The methods are in the package `clustering`.
"""
