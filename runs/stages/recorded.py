"""Evaluations from the cache, for figures. Nothing is computed; neither networks nor features are read."""

from typing import TYPE_CHECKING

from runs.config.configs import EvaluateConfig
from runs.stages.evaluations import EvaluationStage
from runs.stages.lineage import Lineage, evaluate_name
from runs.stages.results import Result
from runs.stages.tuning import find_tuned
from runs.storage.locks import Say, silent

if TYPE_CHECKING:
    from runs.track import Tracker


def recorded_evaluation(config: EvaluateConfig, tracker: "Tracker", say: Say = silent) -> Result | None:
    """Return the evaluation of a config; None if it is not in the cache.

    Args:
        say: called with a message about a missing tuning.
    """
    tuned = find_tuned(config.tuning_config(), tracker.store, tracker) if config.tuned else None
    if config.tuned and tuned is None:
        say(f"{evaluate_name(config)} is not tuned yet")
        return None
    settled = config.settled(tuned.values if tuned else {})
    found: Result | None = EvaluationStage(settled, config, Lineage.of(config), None, tuned).find(
        tracker.store, tracker
    )
    return found
