"""Typed configs of runs: parsing of the command line, and identities.

    parse(EvaluateConfig, ["benchmark=omniglot", "strategy=simpleshot,laplacianshot", "shot=1,5"])  # four configs

Keys are top-level fields (`seed`), groups (`strategy`), fields of a chosen option (`strategy.weight`), or such fields
without their group (`weight`, `shot`) if only one chosen option has them. `experiment=NAME` inserts the keys of
`configs/experiment/NAME.yaml` (or of a YAML file given by its path); the command line overrides them.
Neither torch nor MLflow is imported here, except by `Choice.build`.
"""

from collections.abc import Mapping, Sequence
from typing import TypeVar

from runs.config.base import PLACES, RunConfig, as_yaml, group_names, group_of, key, to_yaml, top_level
from runs.config.cluster import ClusterConfig
from runs.config.fair import FairConfig
from runs.config.groups import Choice
from runs.config.schemas import SCHEMAS, EvaluateConfig, TrainConfig, TuneConfig
from runs.config.source import freeze

C = TypeVar("C", bound=RunConfig)


def parse(
    schema: type[C], arguments: Sequence[str], under: Mapping[str, str] | None = None, origin: str = ""
) -> list[C]:
    """Return the configs of a command line: one, or the product over all keys with several values.

    The order follows the keys as typed; the last key varies fastest. If only some of the chosen options have a field
    (`strategy=simpleshot,laplacianshot weight=0.1,1`), it is varied for these; equal configs are returned once. With
    `tuning`, several values of a strategy's field do not create several configs: tuning chooses among them.

    Args:
        schema: the class of the configs.
        arguments: settings of the form key=value.
        under: values by key that the arguments override, like those of an experiment.
        origin: source of these values, for messages.

    Raises:
        InputError: a key, option or value is invalid; the message names it and suggests the closest valid one.
    """
    from runs.config.resolution import resolve

    return [schema(**fields) for fields in resolve(schema, arguments, under, origin)]


__all__ = [
    "PLACES",
    "SCHEMAS",
    "Choice",
    "ClusterConfig",
    "EvaluateConfig",
    "FairConfig",
    "RunConfig",
    "TrainConfig",
    "TuneConfig",
    "as_yaml",
    "freeze",
    "group_names",
    "group_of",
    "key",
    "parse",
    "to_yaml",
    "top_level",
]
