"""Checkpoint -> features -> tuning -> evaluation: each result is computed once for its identity, and then reused.

A process holds the lock of the identity that it computes, so a second process waits and then reuses the result. Only
complete results are visible: when all files are written, a cache folder is renamed, and a run is marked FINISHED.
"""

from runs.stages.banks import features
from runs.stages.checkpoints import CHECKPOINT, checkpoint
from runs.stages.evaluations import evaluation
from runs.stages.results import Result
from runs.stages.tuning import Tuning, tune

__all__ = [
    "CHECKPOINT",
    "Result",
    "Tuning",
    "checkpoint",
    "evaluation",
    "features",
    "tune",
]
