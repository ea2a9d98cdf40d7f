"""Claims of the papers, checked on the results of their tables. `runs/published/claims.yaml` states them.

Verdicts on single cells are in `runs.tables.judging`.
"""
