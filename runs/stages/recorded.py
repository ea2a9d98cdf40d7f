"""Evaluations and tunings from the cache, for figures. Nothing is computed; neither networks nor features are read."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from runs.config.configs import EvaluateConfig, TuneConfig
from runs.config.overrides import spell
from runs.stages.evaluations import EvaluationStage, Parent
from runs.stages.lineage import Lineage, evaluate_name
from runs.stages.results import Result
from runs.stages.stage import Workspace
from runs.stages.tuning import TuningStage, find_tuned
from runs.stages.tuning_curves import Curve, Trial
from runs.storage.locks import Say, silent

if TYPE_CHECKING:
    from runs.track import Tracker


@dataclass(frozen=True, eq=False)
class RecordedTuning:
    """A finished tuning: its run, and the results of its last step.

    Attributes:
        config: the config of the tuning.
        run_id: id of the MLflow run that holds the choice.
        curve: every value of the last step, with the chosen one marked.
        novel: the same values on tasks of novel classes; None unless the config requests them.
    """

    config: TuneConfig
    run_id: str
    curve: Curve
    novel: Curve | None

    @property
    def run_ids(self) -> list[str]:
        """The ids of the tuning's run and of the run of every value."""
        curves = [self.curve, *([self.novel] if self.novel else [])]
        return [self.run_id, *(trial.result.run_id for curve in curves for trial in curve.trials)]


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
    return EvaluationStage(settled, config, Lineage.of(config), None, tuned).find(tracker.store, tracker)


def recorded_tuning(config: TuneConfig, tracker: "Tracker", say: Say = silent) -> RecordedTuning | None:
    """Return the tuning of a config with all its trials; None if a part of it is not in the cache.

    Args:
        say: called with a message about what is missing.
    """
    lineage = Lineage.of(config)
    stage = TuningStage(config, lineage, Workspace(tracker.store, tracker))
    found = stage.find(tracker.store, tracker)
    if found is None:
        return None
    chosen, _ = found
    splits = {stage.steps[-1].split: stage.steps[-1].tasks} | (
        {"novel": config.novel_tasks} if config.novel_tasks else {}
    )
    curves = [_curve(stage, chosen.values, split, tasks, chosen.run_id, say) for split, tasks in splits.items()]
    if None in curves:
        return None
    return RecordedTuning(config, chosen.run_id, curves[0], curves[1] if config.novel_tasks else None)  # type: ignore[arg-type]


def _curve(
    stage: TuningStage, chosen: Mapping[str, Any], split: str, tasks: int, run_id: str, say: Say
) -> Curve | None:
    """Return the results of the last step's values on tasks of a split; None if one of them is missing."""
    config, step, tracker = stage.config, stage.steps[-1], stage.work.tracker
    parent, trials = Parent(stage.experiment, run_id, tuple(step.grids)), []
    for point in config.strategy.at({**chosen, **step.grids}).points():
        values = {field: point.options[field] for field in step.grids}
        trial = config.trial(point, split, tasks)
        result = EvaluationStage(trial, trial, stage.lineage, parent, None).find(tracker.store, tracker)
        if result is None:
            say(f"{stage.name} lacks {spell(values)} on {tasks:,} tasks of {split} classes")
            return None
        trials.append(Trial(values, result))
    by_values = {tuple(trial.values.values()): trial for trial in trials}
    return Curve(step, tuple(trials), by_values[tuple(chosen[field] for field in step.grids)], None)
