"""Fair clustering as a stage: paths of weights on data sets with groups.

The methods are in the package `fairness`.
"""
