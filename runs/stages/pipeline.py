"""Checkpoint -> features -> tuning -> evaluation: each is made once for its identity, and reused after that.

Whoever makes something holds the lock of its identity, so a second process waits and then reuses. Nothing
half-done counts: a folder of the cache is renamed into place, a run is marked FINISHED, when all is in it.
"""

from runs.scheduling.planning import Plan, plan
from runs.stages.banks import features
from runs.stages.checkpoints import Checkpoint, checkpoint
from runs.stages.results import Result
from runs.stages.tuned_evaluations import evaluation
from runs.stages.tuning import Tuning, tune

__all__ = [
    "Checkpoint",
    "Plan",
    "Result",
    "Tuning",
    "checkpoint",
    "evaluation",
    "features",
    "plan",
    "tune",
]
