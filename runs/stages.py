"""Checkpoint -> features -> tuning -> evaluation: each is made once for its identity, and reused after that.

Whoever makes something holds the lock of its identity, so a second process waits and then reuses. Nothing
half-done counts: a folder of the cache is renamed into place, a run is marked FINISHED, when all is in it.
"""

from runs.banks import features
from runs.checkpoints import Checkpoint, checkpoint
from runs.planning import Plan, Step, plan
from runs.results import Result
from runs.tuned_evaluations import evaluation
from runs.tuning import Tuning, tune

__all__ = ["Checkpoint", "Plan", "Result", "Step", "Tuning", "checkpoint", "evaluation", "features", "plan", "tune"]
