"""Checkpoint -> features -> tuning -> evaluation: each result is computed once for its key, and then reused."""

from runs.stages.banks import features
from runs.stages.checkpoints import CHECKPOINT, checkpoint
from runs.stages.evaluations import evaluation
from runs.stages.results import Result
from runs.stages.tuning import Tuning, tune

__all__ = ["CHECKPOINT", "Result", "Tuning", "checkpoint", "evaluation", "features", "tune"]
