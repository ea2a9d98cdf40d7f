"""Optimisation of fair clustering: moves of points, the fair normalised cut, rounding and weight search.

Estimators, groups and metrics are in `fairness`.
"""
