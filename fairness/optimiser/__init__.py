"""Variational fair clustering: the fairness term, compressed assignments, starts and the search for a weight.

Estimators, groups and metrics lie in `fairness`.
"""
