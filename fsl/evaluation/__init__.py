"""Evaluation of strategies on tasks: per-task accuracies, intervals, paired comparisons and audits.

Recording of results lies in `runs`.
"""

from typing import TYPE_CHECKING

from clustering.foundation.lazy import lazy_names

if TYPE_CHECKING:
    from fsl.evaluation.episodic import Evaluation, evaluate

__all__ = ["Evaluation", "evaluate"]

__getattr__, __dir__ = lazy_names(__name__, dict.fromkeys(__all__, "fsl.evaluation.episodic"))
