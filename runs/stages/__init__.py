"""The stages of a run: checkpoint, features, tuning, evaluation. The result of each identity is computed once.

`runs.parallel` determines the process in which a stage runs.
"""
