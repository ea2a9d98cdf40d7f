"""Terminal output: results on standard output, progress and messages on standard error.

The verbs lie in `runs.cli`.
"""
