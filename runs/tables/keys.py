"""The keys by which results are merged with cells: the settings that can change a result, but for the seed."""

import functools
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from runs.cache import key, raised
from runs.config.base import PLACES, top_level
from runs.config.configs import ClusterConfig, EvaluateConfig, FairConfig
from runs.config.groups import SAME
from runs.config.overrides import values
from runs.config.schemas import CROSSING, TASKS
from runs.record.query import RunRow
from runs.stages.given_features import given_fingerprint
from runs.stages.lineage import revisions_of
from runs.tables.table import Config

Keys = dict[str, str]
BY_CONTENT = {"checkpoint": None, "pretrained": None}  # weights count by content, not by file
PRESETS = ("strategy", "sampler", "target")


def keys_of(config: Config) -> Keys:
    """The keys of a config, except the seed, that can change its result: flat keys as text."""
    if isinstance(config, EvaluateConfig):
        return result_keys(config)
    return {name: str(value) for name, value in config.result_keys().items() if name != "seed" and value is not None}


def keys_by_name(config: Config) -> Keys:
    """The keys of a config; files of features count by their names, so that their folder makes no difference."""
    if isinstance(config, EvaluateConfig) and config.features is not None:
        return keys_of(config) | {"features": file_names(config.features)}
    return keys_of(config)


def cell_key(config: Config) -> str:
    """The key of a cell in the shipped results: a hash of its keys by name, and of the revisions of its classes."""
    settings = keys_by_name(config) | {"selected_from": selected_from(config)}
    return key("cell", settings, {}, {"raised": raised(revisions_of(config))})[:8]


def selected_from(config: Config) -> str:
    """The settings from which labels select, as in the tag `selected_from` of its runs."""
    from runs.stages.clustering.fitting import selection_for, tried

    return tried(selection_for(config)) if isinstance(config, ClusterConfig) else ""


def result_keys(config: EvaluateConfig) -> Keys:
    """What can change the result of a config, less the seed: flat keys as text. A preset counts by its values, as it
    does in identities; files of weights and features by their content. Files of features that are not there count by
    their names, so that runs from another machine are found."""
    features = None
    if config.features is not None:
        files = config.feature_files
        features = file_names(files) if config.lacks_features else given_fingerprint(files, config.split, config.prompt)
    tuning = config.tuning if config.tuned else None
    known = {"tuning": tuning, "checkpoint": config.weights, "features": features}
    return _kept({**config.flat(), **BY_CONTENT, **known})


def clustering_keys(config: ClusterConfig | FairConfig) -> Keys:
    """Keys of a config that can change the result, without the seed, as the parameters of its runs."""
    counting = config.result_keys()
    if isinstance(config, FairConfig) and not hasattr(config.method.kind, "path"):
        counting.pop("fairness_weight", None)  # the method has no weight
    return {name: str(value) for name, value in config.flat().items() if name in counting and name != "seed"}


def keys_of_run(run: RunRow) -> list[Keys]:
    """The keys of an evaluation, for each series of seeds that it belongs to; of given features with their content and
    with the names of their files. One whose features are not noted, or cannot be read, has none."""
    params = {**run.params, **BY_CONTENT, "checkpoint": run.tags.get("weights") or None}
    features: list[str | None] = [None]
    if has_features(run):
        try:
            (typed,) = values("features", run.params["features"])
        except ValueError:  # among them InputError
            return []
        files = typed.value if isinstance(typed.value, list) else [typed.value]
        known = run.tags.get("features")
        features = [known, file_names(map(str, files))] if known else []
    kept = [_kept({**params, "features": one}) for one in features]
    return [series for keys in kept for series in _in_series(keys, run.params.get("seed", ""))]


def has_features(run: RunRow) -> bool:
    """Whether an evaluation is of given features."""
    return run.params.get("features", "None") != "None"


def file_names(files: Iterable[str]) -> str:
    """The names of files of features without their folders."""
    return ",".join(Path(file).name for file in files)


def signature(keys: Mapping[str, str]) -> str:
    """Keys as one text, by which runs and cells are merged."""
    return "\n".join(f"{name}={keys[name]}" for name in sorted(keys))


def differences(other: Mapping[str, str], wanted: Mapping[str, str]) -> tuple[str, ...]:
    """Where two configs differ, as in "tasks=1000, not 10000". Of a group that differs only the name is given, and of
    weights that were given in the place of a training only their fingerprint."""
    keys = sorted(one for one in other.keys() | wanted.keys() if other.get(one) != wanted.get(one))
    whole = {one.removesuffix(".name") for one in keys if "." not in one or one.endswith(".name")}
    whole |= {"training"} if "checkpoint" in keys else set()
    spelt = []
    for one in keys:
        name = one.removesuffix(".name")
        if name == one and one.partition(".")[0] in whole and "." in one:
            continue
        spelt.append(f"{name}={other.get(one, 'null')}, not {wanted.get(one, 'null')}")
    return tuple(dict.fromkeys(spelt))


def _in_series(keys: Keys, seed: str) -> list[Keys]:
    """A run whose tasks are drawn from its own seed belongs to two series: one in which each seed has its own tasks,
    and one with this `task_seed`."""
    if keys.get("task_seed", seed) != seed:
        return [keys]
    return [{name: value for name, value in keys.items() if name != "task_seed"}, keys | {"task_seed": seed}]


@functools.cache
def _ignored() -> frozenset[str]:
    execution = {field.name for field in top_level(EvaluateConfig) if field.metadata["execution"]}
    return frozenset({"seed", "training", "audit", *execution})  # an audit does not change the result


def _kept(keys: Mapping[str, Any]) -> Keys:
    """The flat keys, of a config or of the parameters of a run, that can change the result."""
    here = keys.get("target", SAME) == SAME
    ignored = _ignored()
    kept: Keys = {}
    for name, value in keys.items():
        group, _, field = name.partition(".")
        if name in ignored or name in PRESETS or field in PLACES or value is None or str(value) == "None":
            continue
        if here and group in CROSSING:
            continue
        kept[name] = str(value)
    # A run records the chosen value and the values tuning chose from; a config has only the latter.
    for name in [name for name in kept if name.startswith("tuning.")]:
        kept[f"strategy.{name.removeprefix('tuning.')}"] = kept.pop(name)
    for group in PRESETS:
        if not (here and group in CROSSING):
            kept[f"{group}.name"] = str(keys.get(f"{group}.name", keys.get(group)))
    kept.setdefault("tasks", str(TASKS))
    return kept
