"""Optimisation of variational fair clustering: the fairness term, compressed assignments, starts and weight search.

Estimators, groups and metrics are in `fairness`.
"""
