"""The one objective and its one optimiser: terms, prototypes, the bound step and the alternation.

No estimator lies here: these bring points and graphs, and call `descend` or `alternate`.
"""
