"""Checkpoint -> features -> evaluation: each is made once for its identity, and reused after that.

Whoever makes something holds the lock of its identity, so a second process waits and then reuses. Nothing
half-done counts: a folder of the cache is renamed into place, a run is marked FINISHED, when all is in it.
"""

from runs.banks import features
from runs.checkpoints import Checkpoint, checkpoint
from runs.evaluations import evaluation
from runs.planning import Plan, Step, plan
from runs.results import Result

__all__ = ["Checkpoint", "Plan", "Result", "Step", "checkpoint", "evaluation", "features", "plan"]
