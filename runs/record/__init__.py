"""The record of runs in MLflow: writing, search, queries, and the server of its interface.

`runs.storage` manages the other files of the results folder.
"""
