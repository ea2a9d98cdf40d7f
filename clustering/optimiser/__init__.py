"""The common objective and its optimiser: terms, prototypes, the bound step and the alternation.

Estimators are elsewhere: they build points and graphs, and call `descend` or `alternate`.
"""
