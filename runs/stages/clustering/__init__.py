"""Clustering as a stage: trials of methods on data sets, and trainings of networks.

The methods themselves lie in `clustering`.
"""
