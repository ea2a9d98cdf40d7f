"""The cell key, by which results are merged with cells: a hash of the settings that can change a result."""

from collections.abc import Mapping
from inspect import signature
from pathlib import Path

from runs.cache import key
from runs.config.configs import ClusterConfig, EvaluateConfig, FairConfig
from runs.stages.given_features import given_fingerprint

Config = EvaluateConfig | ClusterConfig | FairConfig
"""Config of a cell: few-shot tasks, a clustering, or a fair clustering along a path of weights."""
IGNORED = ("seed", "audit")  # an audit does not change the result


def settings_of(config: Config) -> dict[str, str]:
    """The settings of a config that can change its result, without the seed: flat keys as text.

    Files of features count by their names, weights by their content.
    """
    keys = config.result_keys()
    if isinstance(config, EvaluateConfig):
        files = None if config.features is None else ",".join(Path(file).name for file in config.features)
        tuning = config.tuning if config.tuned else None
        keys |= {"features": files, "prompt": config.prompt, "tuning": tuning}
    if isinstance(config, FairConfig) and "fairness_weight" not in signature(config.method.outline).parameters:
        del keys["fairness_weight"]  # the method has no weight
    return {name: str(value) for name, value in keys.items() if value is not None and name not in IGNORED}


def cell_key(config: Config, features: str = "") -> str:
    """The key of the cell that a config fills.

    Args:
        features: fingerprint of the given features, which counts instead of the names of their files.
    """
    settings = settings_of(config)
    if isinstance(config, ClusterConfig):
        from runs.stages.clustering.selections import selection_for  # imports NumPy

        settings["selection"] = repr(selection_for(config))
    return key("cell", settings | ({"features": features} if features else {}), {}, {})[:8]


def features_here(config: Config) -> str:
    """The fingerprint of the given features of a config; empty without any, or if a file is not there."""
    if not isinstance(config, EvaluateConfig) or config.features is None or config.lacks_features:
        return ""
    return given_fingerprint(config.feature_files, config.split, config.prompt)


def cell_keys(config: Config) -> str:
    """The keys of all cells that a run fills, separated by spaces: the tag `cell` of the run.

    Given features count by their content and by their names.
    """
    return " ".join(dict.fromkeys(cell_key(config, content) for content in ("", features_here(config))))


def differences(other: Mapping[str, str], wanted: Mapping[str, str]) -> tuple[str, ...]:
    """Where the settings of two configs differ, as in "tasks=1000, not 10000". Of a group that differs only the name is
    given, and of weights that were given in the place of a training only their fingerprint."""
    differ = sorted(name for name in other.keys() | wanted.keys() if other.get(name) != wanted.get(name))
    whole = {name for name in differ if "." not in name} | ({"training"} if "checkpoint" in differ else set())
    shown = [name for name in differ if name != "training" and ("." not in name or name.partition(".")[0] not in whole)]
    return tuple(f"{name}={other.get(name, 'null')}, not {wanted.get(name, 'null')}" for name in shown)
