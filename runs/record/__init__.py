"""The record of runs in MLflow: written, found again, queried, served.

Files beside it lie in `runs.storage`.
"""
