"""What a person sees: results on standard output, progress and messages on standard error.

Verbs lie in `runs.cli`.
"""
