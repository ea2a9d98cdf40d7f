"""Typed configs of runs: parsing of the command line, and result keys.

    parse(EvaluateConfig, ["benchmark=omniglot", "strategy=simpleshot,laplacianshot", "shot=1,5"])  # four configs

`experiment=NAME` inserts the keys of `configs/experiment/NAME.yaml` (or of a YAML file given by its path); the command
line overrides them. Neither torch nor MLflow is imported here, except by `Choice.build`.
"""

from runs.config.base import RunConfig
from runs.config.cluster import ClusterConfig
from runs.config.compose import parse
from runs.config.fair import FairConfig
from runs.config.groups import Choice
from runs.config.schemas import SCHEMAS, EvaluateConfig, TrainConfig, TuneConfig

__all__ = [
    "SCHEMAS",
    "Choice",
    "ClusterConfig",
    "EvaluateConfig",
    "FairConfig",
    "RunConfig",
    "TrainConfig",
    "TuneConfig",
    "parse",
]
