"""Typed configs of runs: parsing of the command line, and result keys.

    parse(EvaluateConfig, ["benchmark=omniglot", "strategy=simpleshot,laplacianshot", "shot=1,5"])  # four configs

`experiment=NAME` inserts the keys of `configs/experiment/NAME.yaml` (or of a YAML file given by its path); the command
line overrides them. Neither torch nor MLflow is imported here, except by `Choice.build`.
"""

from runs.config.base import RunConfig as RunConfig
from runs.config.cluster import ClusterConfig as ClusterConfig
from runs.config.compose import parse as parse
from runs.config.fair import FairConfig as FairConfig
from runs.config.groups import Choice as Choice
from runs.config.schemas import SCHEMAS as SCHEMAS
from runs.config.schemas import EvaluateConfig as EvaluateConfig
from runs.config.schemas import TrainConfig as TrainConfig
from runs.config.schemas import TuneConfig as TuneConfig
