"""The folder of results: the store, locks between processes, files that belong together, model cards.

What the files hold is decided by the stages.
"""
