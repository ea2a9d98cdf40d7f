"""The revisions of the classes behind a config: part of the key of its result, and the tag `revisions` of its runs, by
which tables match runs to cells."""

from runs.cache import revisions
from runs.config.configs import ClusterConfig, EvaluateConfig, FairConfig, TuneConfig

EVALUATION, CLUSTERING, FAIR = 1, 1, 1
"""Raise one with a change of results by the code around the classes: tasks and scores, trials and selection, paths of
weights."""


def revisions_of(config: EvaluateConfig | TuneConfig | ClusterConfig | FairConfig) -> dict[str, int | str]:
    """Return the revisions of a config's classes, and of the code that uses them."""
    if isinstance(config, EvaluateConfig | TuneConfig):
        return revisions(strategy=config.strategy.kind, sampler=config.sampler.kind, evaluation=EVALUATION)
    around = {"fair": FAIR} if isinstance(config, FairConfig) else {"clustering": CLUSTERING}
    return revisions(method=config.method.kind, dataset=config.dataset.kind, **around)
