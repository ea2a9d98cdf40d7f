"""Evaluation of configs with tuned values, which are tuned first or taken from the record."""

from collections.abc import Sequence

from clustering.foundation.progress import Progress, quiet
from runs.cache import Store
from runs.config.configs import EvaluateConfig
from runs.stages import evaluations
from runs.stages.lineage import short
from runs.stages.results import Result, Tuned
from runs.stages.tuning import find_tuned, tune
from runs.track import Tracker


def evaluation(
    configs: Sequence[EvaluateConfig],
    store: Store,
    tracker: Tracker,
    *,
    progress: Progress = quiet,
    force: bool = False,
    failures: list[tuple[str, Exception]] | None = None,
) -> list[Result]:
    """Return the result of each config as `runs.stages.evaluations.evaluation`, after tuning the configs with `tuning`.

    Args:
        force: evaluate again, even if the result is in the record; tunings are not repeated.
        failures: list to which failed strategies are appended, with the names of their runs.
    """
    chosen = [_find(config, store, tracker, progress) for config in configs]
    missing = [i for i, config in enumerate(configs) if config.tuned and chosen[i] is None]
    evaluations.check([configs[i] for i in missing], store, tracker, progress)
    for i in missing:
        chosen[i] = tune(configs[i].tuning_config(), store, tracker, progress=progress).tuned
    for strategy in dict.fromkeys(short(config.strategy) for config in configs if config.tuning and not config.tuned):
        progress.note(f"there is nothing to tune for {strategy}: evaluated as it is")
    return evaluations.evaluation(
        configs, store, tracker, progress=progress, force=force, tuned=chosen, failures=failures
    )


def _find(config: EvaluateConfig, store: Store, tracker: Tracker, progress: Progress) -> Tuned | None:
    """Return the tuned values of a config; None if they are not tuned yet, or there is nothing to tune."""
    return find_tuned(config.tuning_config(), store, tracker, progress=progress) if config.tuned else None
