"""Outcomes of small cases: those of runs that are exported, and whether the present code repeats those of others."""

import functools
import warnings
from collections.abc import Mapping
from typing import Any

from clustering.foundation.errors import InputError
from runs.config.base import FILES, code_left_out, identity
from runs.config.configs import ClusterConfig, EvaluateConfig, FairConfig, TuneConfig, parse
from runs.config.overrides import write
from runs.config.yaml_files import parse_yaml
from runs.record.exports.outcome import SMALL_CASE, Numbers, Outcome, difference
from runs.record.query import RunRow
from runs.stages.lineage import recipe
from runs.storage.locks import Say, silent

Config = EvaluateConfig | ClusterConfig | FairConfig
SCHEMAS: Mapping[str, type[Config]] = {"evaluation": EvaluateConfig, "clustering": ClusterConfig, "fair": FairConfig}
"""Configs by the stage of their runs."""
SHARES = "method.target"
"""The key whose values may have a colon, as in [Female: 0.5]; in others it may be that of package.module:Class."""
NOT_IN_CASES = (
    *("seed", "task_seed", "device", "devices", "results", "output", "batch", "tasks", "split", "prompt"),
    *("features_root", "checkpoint", "pretrained", "base_mean", "tuning", "benchmark.root", "target.root"),
)
"""Keys that make no difference to a small case."""


def recipe_of(config: Config, run: RunRow) -> str:
    """Return the tag `recipe` that a run of this config, on the inputs of `run`, would get from the present code.

    Raises:
        InputError: the config cannot be built here.
    """
    tags = run.tags
    if isinstance(config, EvaluateConfig):
        if config.features is not None:
            return recipe(config, tags.get("features", ""))
        return recipe(config, tags.get("data", ""), tags.get("target_data", ""))
    if isinstance(config, FairConfig):
        from runs.stages.fair.stage import FairStage

        return FairStage.on(config, tags.get("data", "")).recipe
    from runs.stages.clustering.fitting import ClusteringStage

    return ClusteringStage.on(config, tags.get("data", "")).recipe


def settings_of(config: Config, run: RunRow) -> str:
    """Return `recipe_of` without code: the identity of the settings and inputs, and of the version numbers of code that
    are increased when results change."""
    with code_left_out():
        return recipe_of(config, run)


def why_stale(config: Config, run: RunRow) -> str:
    """Return why a run of other code does not count as a result of this config; empty if its small case has the same
    outcome with the present code."""
    try:
        before = Outcome.parse(run.tags[SMALL_CASE])
    except KeyError:
        return "it has no small case to check"
    except ValueError as error:
        return str(error)
    try:
        if before.settings != settings_of(config, run):
            return "a setting outside its config, such as one of the protocol, has changed since"
        found = difference(small_case(config), before.numbers)
    except Exception as error:  # the edited code may raise anything
        return f"its small case fails: {type(error).__name__}: {error}"
    return found and f"its small case gives {found}"


def stale_now(run: RunRow, config: bytes | None) -> str:
    """Return why the present code may not repeat a run; empty if its code is the present one, or if its small case has
    the same outcome.

    Args:
        run: a shipped run.
        config: its file config.yaml; None if it has none.
    """
    schema = _schema(run)
    if schema is None or config is None:
        return "it has no small case to check"
    try:
        parsed, same_code = _compared(schema, config, run)
    except (InputError, ValueError, OSError) as error:
        return f"its config is not valid any more: {error}"
    return "" if same_code else why_stale(parsed, run)


_known: dict[str, Numbers | Exception] = {}


def small_case(config: Config) -> Numbers:
    """Return the numbers of the small case of a config; computed once in a process for all configs that share it.

    Raises:
        Exception: there is none for this config, or its code fails.
    """
    key = _key(config)
    if key not in _known:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                _known[key] = _computed(config)
        except Exception as error:
            _known[key] = error
    found = _known[key]
    if isinstance(found, Exception):
        raise found
    return found


def _key(config: Config) -> str:
    """The options on which a small case depends, as text."""
    flat: dict[str, Any] = {name: value for name, value in config.flat().items() if name not in NOT_IN_CASES}
    if isinstance(config, EvaluateConfig):
        flat["features"] = config.features is not None
    elif any(f"dataset.{name}" in flat for name in FILES):
        flat = {name: value for name, value in flat.items() if name.partition(".")[0] != "dataset"}
    if isinstance(config, ClusterConfig):  # the case has its own number of these
        flat |= {name: bool(flat[name]) for name in ("labels", "links")}
    kind = next(schema for schema in SCHEMAS.values() if isinstance(config, schema))
    return identity("small case", kind=kind.__name__, options=flat)


def _computed(config: Config) -> Numbers:
    if isinstance(config, EvaluateConfig):
        from runs.stages.small_cases.few_shot import few_shot_case

        return few_shot_case(config)
    if isinstance(config, FairConfig):
        from runs.stages.small_cases.fair import fair_case

        return fair_case(config)
    from runs.stages.small_cases.clusterings import clustering_case

    return clustering_case(config)


def outcome_of(run: RunRow, config: bytes | None, say: Say = silent) -> str | None:
    """Return the tag `small_case` of a run that is exported: computed if the present code is that of the run, otherwise
    the one that it has; None if it has none.

    Args:
        run: the run.
        config: its file config.yaml.
        say: receives a message about a small case that cannot be computed.
    """
    carried = run.tags.get(SMALL_CASE)
    schema = _schema(run)
    if config is None or schema is None:
        return carried
    try:
        parsed, same_code = _compared(schema, config, run)
    except (InputError, ValueError, OSError):
        return carried
    if not same_code:
        return carried
    try:
        return Outcome(settings_of(parsed, run), small_case(parsed)).text()
    except Exception as error:
        say(f"{run.name}: exported without the outcome of a small case ({error})")
        return carried


def _compared(schema: type[Config], config: bytes, run: RunRow) -> tuple[Config, bool]:
    """Return the config of a run from its file, and whether the present code is that of the run.

    Raises:
        InputError, ValueError, OSError: the config is not valid here, or cannot be built.
    """
    parsed = _parsed(schema, config.decode(), run)
    return parsed, recipe_of(parsed, run) == run.tags.get("recipe")


def _parsed(schema: type[Config], text: str, run: RunRow) -> Config:
    """Return the config of a run from its text.

    Raises:
        InputError, ValueError: it is not valid here, or names code, which is not imported because of a record.
    """
    content = parse_yaml(text)
    if not isinstance(content, dict):
        raise InputError(f"{run.name}: the config is not a mapping")
    under = {str(key): _written(value) for key, value in content.items()}
    if any(":" in value for key, value in under.items() if key != SHARES):
        raise InputError(f"{run.name}: the config may name code of its own")
    (config,) = parse(schema, [], under, f"run {run.name}")
    return config


def _written(value: Any) -> str:
    return value.replace(r"\${", "${") if isinstance(value, str) else write(value)


def _schema(run: RunRow) -> type[Config] | None:
    """Return the schema of a run's config, with the hash of its weights in place of a file that may not be here."""
    schema, weights = SCHEMAS.get(run.tags.get("stage", "")), run.tags.get("weights")
    return evaluated_with(weights) if schema is EvaluateConfig and weights else schema


@functools.cache
def evaluated_with(known: str) -> type[EvaluateConfig]:
    """Return the schema of evaluations with given weights, whose file may not be here.

    Args:
        known: hash of the weights: the tag `weights` of a run.
    """

    class TuneWithWeights(TuneConfig):
        @property
        def weights(self) -> str:
            return known

    class WithWeights(EvaluateConfig):
        @property
        def weights(self) -> str:
            return known

        def tuning_config(self) -> TuneConfig:
            return TuneWithWeights(**vars(super().tuning_config()))

    return WithWeights
