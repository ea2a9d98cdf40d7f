"""Evaluation of strategies on tasks: per-task accuracies, intervals, paired comparisons and audits.

Recording of results lies in `runs`.
"""

from typing import TYPE_CHECKING

from clustering.foundation.lazy import lazy_names

if TYPE_CHECKING:
    from fsl.evaluation.episodic import evaluate
    from fsl.evaluation.scores import Evaluation

__all__ = ["Evaluation", "evaluate"]

_HOMES = {"Evaluation": "fsl.evaluation.scores", "evaluate": "fsl.evaluation.episodic"}
__getattr__, __dir__ = lazy_names(__name__, _HOMES)
