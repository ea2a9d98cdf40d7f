"""What a run is: typed configs, how the command line makes them, and their identity.

    parse(EvaluateConfig, ["benchmark=omniglot", "strategy=simpleshot,laplacianshot", "shot=1,5"])  # four

Keys are top-level fields (`seed`), groups (`strategy`), fields of what a group chose (`strategy.weight`), or
such a field without its group (`weight`, `shot`) where only one chosen group has it. `experiment=NAME` puts the lines
of `configs/experiment/NAME.yaml` (or of a YAML file given by its path) before those of the command line.
Nothing here imports torch or MLflow; `Choice.build` does.
"""

from collections.abc import Mapping, Sequence
from typing import TypeVar

from runs.config.base import PLACES, RunConfig, as_yaml, group_names, group_of, identity, key, top_level
from runs.config.cluster import ClusterConfig
from runs.config.fair import FairConfig
from runs.config.groups import Choice, freeze
from runs.config.schemas import SCHEMAS, EvaluateConfig, TrainConfig, TuneConfig

C = TypeVar("C", bound=RunConfig)


def parse(
    schema: type[C], arguments: Sequence[str], under: Mapping[str, str] | None = None, origin: str = ""
) -> list[C]:
    """Configs that a command line asks for: one, or the product of all keys with several values.

    The order is that of the keys as typed, the last one fastest. A field that only some of the chosen options
    have (`strategy=simpleshot,laplacianshot weight=0.1,1`) is varied for those; equal configs are given once.
    With `tuning` several values of a strategy's field make no configs of their own: tuning chooses from them.

    Args:
        under: values by key that the arguments go over, as they go over an experiment's.
        origin: whose values these are, for messages.

    Raises:
        InputError: names the key, group option or value that is wrong, and the nearest right one.
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
    "identity",
    "key",
    "parse",
    "top_level",
]
