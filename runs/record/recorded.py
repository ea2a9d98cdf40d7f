"""Results and tunings from the record. Nothing is computed; neither images nor checkpoints are needed.

A run is used only if its identity shows that this version of the code would compute the same result from the same
images. If several runs qualify, the newest is used.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from runs.config.configs import EvaluateConfig, TuneConfig
from runs.config.overrides import spell
from runs.config.tuning_protocol import TuningStep, steps_of
from runs.record.query import RunRow, read_runs
from runs.stages.lineage import Lineage, evaluate_name, short
from runs.stages.results import PER_TASK, Result, recorded_result
from runs.stages.tuning import chosen_values
from runs.stages.tuning_curves import Curve, Trial
from runs.storage.locks import Say, silent
from runs.track import PARENT

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
    """Return the newest complete evaluation of a config; None if there is none.

    Args:
        say: called with a message about an incomplete run.
    """
    runs = _runs(f"evaluate/{short(config.benchmark)}", config, tracker, {"stage": ["evaluation"]})
    for run in _of_identity(
        runs, evaluate_name(config), lambda states: Lineage.on(config, *states).evaluation(config), say
    ):
        if result := _result(config, run, tracker, say):
            return result
    return None


def recorded_tuning(config: TuneConfig, tracker: "Tracker", say: Say = silent) -> RecordedTuning | None:
    """Return the newest tuning of a config for which all trials are in the record; None if there is none.

    Args:
        say: called with a message about what is missing in a tuning.
    """
    experiment = f"tune/{short(config.benchmark)}"
    runs = _runs(experiment, config, tracker, {"stage": ["tuning"]})
    step = steps_of(config.tuning, config.strategy)[-1]
    for run in _of_identity(
        runs, evaluate_name(config), lambda states: Lineage.on(config, *states).tuning(config), say
    ):
        children = _runs(experiment, config, tracker, {"stage": ["evaluation"], PARENT: [run.run_id]})
        chosen = chosen_values(config, run.tags)
        if chosen is None:
            say(f"run {run.run_id} ({run.name}) does not state the chosen values")
            continue
        curve = _curve(config, step, chosen, step.split, step.tasks, run, children, tracker, say)
        novel = None
        if curve and config.novel_tasks:
            novel = _curve(config, step, chosen, "novel", config.novel_tasks, run, children, tracker, say)
        if curve and (novel or not config.novel_tasks):
            return RecordedTuning(config, run.run_id, curve, novel)
    return None


def _runs(
    experiment: str, config: EvaluateConfig | TuneConfig, tracker: "Tracker", tags: Mapping[str, list[str]]
) -> list[RunRow]:
    """Return finished runs that may match a config, newest first."""
    if not tracker.exists():
        return []
    network = {"backbone": [config.backbone.name], "seed": [str(config.seed)]}
    return [run for run in read_runs(tracker, experiment, tags={**network, **tags}) if run.experiment == experiment]


def _of_identity(
    runs: list[RunRow], name: str, identity_on: Callable[[tuple[str, str]], str], say: Say
) -> list[RunRow]:
    """Return the runs whose identity is that of the config on the images of the run."""
    identities: dict[tuple[str, str], str] = {}
    matches = []
    for run in runs:
        images = (run.tags.get("data", ""), run.tags.get("target_data", ""))
        if images not in identities:
            identities[images] = identity_on(images)
        if run.tags.get("identity") == identities[images]:
            matches.append(run)
    namesake = next((run for run in runs if run.name == name), None)
    if namesake and not matches:
        say(f"run {namesake.run_id} ({name}) has other settings or was made by other code")
    return matches


def _curve(
    config: TuneConfig,
    step: TuningStep,
    chosen: Mapping[str, Any],
    split: str,
    tasks: int,
    run: RunRow,
    children: list[RunRow],
    tracker: "Tracker",
    say: Say,
) -> Curve | None:
    """Return the results of a step's values on tasks of a split; None if one of them is missing."""
    lineage = Lineage.on(config, run.tags.get("data", ""))
    trials = []
    for point in config.strategy.at({**chosen, **step.grids}).points():
        values = {field: point.options[field] for field in step.grids}
        trial = config.trial(point, split, tasks)
        identity = lineage.evaluation(trial)
        results = [_result(trial, child, tracker, say) for child in children if child.tags.get("identity") == identity]
        result = next((result for result in results if result), None)
        if result is None:
            say(f"run {run.run_id} ({run.name}) lacks {spell(values)} on {tasks:,} tasks of {split} classes")
            return None
        trials.append(Trial(values, result))
    by_values = {tuple(trial.values.values()): trial for trial in trials}
    return Curve(step, tuple(trials), by_values[tuple(chosen[field] for field in step.grids)], None)


def _result(config: EvaluateConfig, run: RunRow, tracker: "Tracker", say: Say) -> Result | None:
    """Return the results of a run, task by task; None, with a message, if the run is incomplete."""
    try:
        return recorded_result(tracker, run.run_id, run.metrics, run.artifact_uri, config, run.tags["identity"])
    except (ValueError, KeyError) as error:
        say(f"{PER_TASK} of run {run.run_id} ({run.name}) is damaged or incomplete: {error}")
        return None
