"""Evaluation of clusterings on data sets: trials, labels granted to methods, and profiles of clusters.

The scores are in `clustering.metrics`.
"""
