"""What the papers claim, checked on the results of their tables.

Verdicts on single cells are `runs.tables.verdicts`.
"""
