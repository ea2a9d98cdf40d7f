"""Fair clustering as a stage: paths of weights on data sets with groups.

The methods themselves lie in `fairness`.
"""
