"""The stages of a run: checkpoint, features, tuning, evaluation; each is made once for its identity.

In which process they run is decided by `runs.scheduling`.
"""
