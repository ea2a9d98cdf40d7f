"""Checkpoint -> features -> tuning -> evaluation: each result is computed once for its key, and then reused."""

from collections.abc import Sequence

from clustering.foundation.progress import Progress, quiet
from runs.cache import Store
from runs.config.configs import EvaluateConfig
from runs.stages.banks import features
from runs.stages.checkpoints import CHECKPOINT, checkpoint
from runs.stages.evaluations import EvaluationStage, Parent, check, evaluate_tuned
from runs.stages.lineage import Lineage, evaluate_name, short
from runs.stages.results import Result
from runs.stages.stage import Failures, Workspace
from runs.stages.tuning import Tuning, find_tuned, tune
from runs.storage.locks import Say
from runs.track import Tracker

__all__ = ["CHECKPOINT", "Result", "Tuning", "checkpoint", "evaluation", "features", "recorded_evaluation", "tune"]


def evaluation(
    configs: Sequence[EvaluateConfig],
    store: Store,
    tracker: Tracker,
    *,
    progress: Progress = quiet,
    force: bool = False,
    parent: Parent | None = None,
    failures: Failures | None = None,
) -> list[Result]:
    """Return the result of each config, in order; finished ones are taken from the cache.

    Configs with `tuning` are tuned first, unless they are. Strategies on the same tasks share the gathered features.
    Each config has a run of its own. If a strategy fails, the others are evaluated and recorded before its error is
    raised.

    Args:
        force: evaluate again, even if the result is in the cache; tunings are not repeated.
        parent: the runs become its children.
        failures: list to which failed strategies are appended, with the names of their runs; the results are those of
            the other strategies. If it is None, the first error is raised.

    Raises:
        InputError: wrong values, an audit that a strategy does not support, or tasks that the classes cannot give;
            raised before any training.
    """
    work = Workspace(store, tracker, progress, force)
    tuned = [find_tuned(config, tracker) for config in configs]
    missing = [i for i, config in enumerate(configs) if config.tuned and tuned[i] is None]
    check([configs[i] for i in missing], Workspace(store, tracker, progress))
    for i in missing:
        tuned[i] = tune(configs[i].tuning_config(), store, tracker, progress=progress).tuned
    for strategy in dict.fromkeys(short(config.strategy) for config in configs if config.tuning and not config.tuned):
        progress.note(f"there is nothing to tune for {strategy}: evaluated as it is")
    return evaluate_tuned(configs, tuned, work, parent=parent, failures=failures)


def recorded_evaluation(config: EvaluateConfig, tracker: Tracker, say: Say) -> Result | None:
    """Return the evaluation of a config from the cache; None, with a message, if it or its tuning is not there."""
    tuned = find_tuned(config, tracker)
    if config.tuned and tuned is None:
        say(f"{evaluate_name(config)} is not tuned yet")
        return None
    found: Result | None = EvaluationStage.of(config, Lineage.of(config), tuned).find(tracker.store, tracker)
    return found
