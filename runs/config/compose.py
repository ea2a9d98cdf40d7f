"""Composition of configs: experiments, then the command line; several values of a key are a product of runs.

Keys are top-level fields (`seed`), groups (`strategy`), fields of a chosen option (`strategy.weight`), or such fields
without their group (`weight`, `shot`) if only one chosen option has them.
"""

import difflib
import itertools
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from omegaconf import OmegaConf

from clustering.foundation.errors import InputError, unknown
from fsl.backbones.names import check_backbone
from runs.config import groups, overrides
from runs.config.base import RunConfig, group_names, group_of, hints_of, top_level
from runs.config.groups import GROUPS, Choice
from runs.config.schemas import SCHEMAS
from runs.config.source import REQUIRED, is_mentioned
from runs.config.tuning_protocol import default_grids, grid_of

C = TypeVar("C", bound=RunConfig)


class Setting(NamedTuple):
    """One `key=text` of the command line, or of an experiment."""

    key: str
    text: str
    experiment: str = ""

    def __str__(self) -> str:
        return f"experiment {self.experiment}: {self.key}" if self.experiment else self.key


def parse(schema: type[C], arguments: Sequence[str], under: Mapping[str, str] | None = None) -> list[C]:
    """Return the configs of a command line: one, or the product over all keys with several values.

    The order follows the keys as typed; the last key varies fastest. If only some of the chosen options have a field
    (`strategy=simpleshot,laplacianshot weight=0.1,1`), it is varied for these; equal configs are returned once. With
    `tuning`, several values of a strategy's field do not create several configs: tuning chooses among them. The
    arguments override the values `under` them, like those of an experiment.

    Raises:
        InputError: a key, option or value is invalid; the message names it and suggests the closest valid one.
    """
    settings = [Setting(*overrides.split(argument)) for argument in arguments]
    named = [item for item in settings if item.key == "experiment"]
    typed = [item for item in settings if item.key != "experiment"]
    if len(named) > 1:
        raise InputError("experiment is given twice; for several experiments, write experiment=a,b")
    overlays = [lines for item in named for name in _names(item) for lines in experiment(name, typed)]
    configs: list[C] = []
    for overlay in overlays or [[Setting(key, text) for key, text in (under or {}).items()]]:
        for config in _product(schema, overlay, typed):
            configs += [] if config in configs else [config]
    return configs


def experiment(name: str, typed: Sequence[Setting] = ()) -> list[list[Setting]]:
    """Return the settings of an experiment: one list, or one for each entry of `each`, whose settings vary together.

    Raises:
        InputError: the file is not valid, or the command line sets some but not all keys of `each`.
    """
    content = groups.experiment(name)
    each = content.pop("each", [{}])
    try:
        if not (isinstance(each, list) and each and all(isinstance(line, dict) for line in each)):
            raise InputError("each must be a list of settings, as - {shot: 1, tasks: 100}")
        shared, *lines = [dict(_leaves(settings)) for settings in (content, *each)]
    except InputError as error:
        raise InputError(f"experiment {name}: {error}") from error
    together = list(dict.fromkeys(key for line in lines for key in line))
    given = [key for key in together if key in {item.key.rpartition(".")[2] for item in typed}]
    if given and given != together:
        remedy = f"give all of them or none, not only {', '.join(given)}"
        raise InputError(f"experiment {name}: {', '.join(together)} vary together; {remedy}")
    return [
        [Setting(key, overrides.of_file(value).text, name) for key, value in (shared | line).items()] for line in lines
    ]


def _leaves(settings: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Yield nested settings in dotted form: `strategy: {name: a, weight: 1}` is strategy=a strategy.weight=1."""
    keys = {group.key for group in GROUPS.values()}
    for name, value in settings.items():
        key = f"{above}.{name}" if above else name
        if above in keys and name == "name":
            yield above, value
        elif key in keys and isinstance(value, dict) and all(isinstance(field, dict) for field in value.values()):
            raise InputError(f"{key} must be a name, or `{key}.FIELD: value` or `{key}: {{name: NAME, FIELD: value}}`")
        elif isinstance(value, dict) and value:
            yield from _leaves(value, key)
        else:
            yield key, value


def accepts(schema: type[RunConfig], name: str) -> bool:
    """Return whether a verb, given by the class of its configs, accepts all keys and options of an experiment."""
    try:
        chosen = [(lines, _candidates(schema, lines)) for lines in experiment(name)]
        return all(_target(schema, item, candidates) for lines, candidates in chosen for item in lines)
    except InputError:
        return False


def _product(schema: type[C], overlay: Sequence[Setting], typed: Sequence[Setting]) -> Iterator[C]:
    candidates = _candidates(schema, [*overlay, *typed])
    given = {item.key for item in (*overlay, *typed)}
    axes: dict[str, list[Any]] = {}
    for choice in candidates:
        if choice.key not in given and choice.key != "training":
            axes.setdefault(choice.key, []).append(choice.name)
    for source in (overlay, typed):
        first: dict[str, str] = {}
        for item in source:
            target = _target(schema, item, candidates)
            if not target and item.experiment and _target(schema, item, _candidates(schema, overlay)):
                continue  # a field of the experiment's option, in whose place another one was typed
            if not target:
                raise _unknown(schema, item, candidates)
            if target in first:
                also = "" if first[target] == item.key else f" and {item.key}, which both set {target}"
                raise InputError(f"given twice: {first[target]}{also}; give it once (several values: {item.key}=a,b)")
            first[target] = item.key
            axes[target] = _values(schema, item, target, candidates)
    for name in axes["backbone"] if "backbone" in group_names(schema) else ():
        check_backbone(name)
    for protocol in axes.pop("tuning", [getattr(schema, "tuning", None)]):
        varied = dict(axes)
        for key, values in axes.items():
            if protocol is not None and key.startswith("strategy.") and len(values) > 1:
                varied[key] = [grid_of(key, values)]
        for combination in itertools.product(*varied.values()):
            point = dict(zip(varied, combination, strict=True))
            yield _config(schema, point | ({"tuning": protocol} if hasattr(schema, "tuning") else {}))


def _candidates(schema: type[RunConfig], settings: Sequence[Setting]) -> list[Choice]:
    """Return the options that the settings choose, or else the default ones."""
    given = {item.key: item for item in settings}
    chosen: dict[str, list[str]] = {}
    for group in group_names(schema):
        if group in given:
            chosen[group] = _names(given[group])
        elif group == "training":
            pairs = itertools.product(chosen["benchmark"], chosen["backbone"])
            chosen[group] = list(dict.fromkeys(groups.default(group, *pair) for pair in pairs))
        else:
            chosen[group] = schema.defaults.get(group, groups.default(group_of(schema, group))).split(",")
    return [groups.option(group_of(schema, key), name) for key, names in chosen.items() for name in names]


def _names(item: Setting) -> list[str]:
    return [name.text for one in overrides.values(item.key, item.text) for name in overrides.items(item.key, one)]


def _mappings(schema: type[RunConfig]) -> list[str]:
    """Return the top-level keys that take any keys below them."""
    return [field.name for field in top_level(schema) if field.default_factory is dict]


def _target(schema: type[RunConfig], item: Setting, candidates: Sequence[Choice]) -> str:
    """Return the key with its group, as strategy.weight for weight; empty if there is no such key."""
    group, _, field = item.key.rpartition(".")
    if item.key in hints_of(schema) or item.key.partition(".")[0] in _mappings(schema):
        return item.key
    owners = {choice.key for choice in candidates if field in choice.options and group in ("", choice.key)}
    if len(owners) > 1:
        ways = " or ".join(f"{owner}.{field}" for owner in sorted(owners))
        raise InputError(f"{item}: more than one group has this field; write {ways}")
    return f"{owners.pop()}.{field}" if owners else ""


def _values(schema: type[RunConfig], item: Setting, target: str, candidates: Sequence[Choice]) -> list[Any]:
    """Return the values of a key, converted to its type."""
    group, dot, field = target.partition(".")
    if target in group_names(schema):
        return _names(item)
    hint = Any if group in _mappings(schema) else hints_of(schema).get(target, Any)
    if group in group_names(schema):
        choice = next(choice for choice in candidates if choice.key == group and field in choice.options)
        hint = groups.described(choice.group, choice.plugin).hints[field]
    others = [f"{choice.key}.{target}" for choice in candidates if target in choice.options and not dot]
    place = f"{item} (another key is {others[0]})" if others else str(item)
    found = overrides.of_field(place, item.text, hint)
    if len(found) > 1 and all(isinstance(value, str) for value in found) and os.path.exists(item.text):
        raise InputError(f"{item}={item.text} names a file with a comma; {overrides.quoted(item.key, item.text)}")
    if target in _mappings(schema) and not all(isinstance(value, dict) for value in found):
        raise InputError(f"{item} takes keys below it, as {target}.KEY=value, not {item.text!r}")
    return found


def _config(schema: type[C], point: Mapping[str, Any]) -> C:
    """Return the config with one value of each key."""
    fields: dict[str, Any] = {field.name: point[field.name] for field in top_level(schema) if field.name in point}
    for name in _mappings(schema):
        if below := [key for key in point if key.startswith(f"{name}.")]:
            mapping = OmegaConf.create(fields.get(name, {}))
            for key in below:
                OmegaConf.update(mapping, key.removeprefix(f"{name}."), point[key], force_add=True)
            fields[name] = OmegaConf.to_container(mapping)
    for group in group_names(schema):
        name = point[group] if group in point else groups.default(group, point["benchmark"], point["backbone"])
        choice = groups.option(group_of(schema, group), name)
        choice = choice.at({field: point[key] for field in choice.options if (key := f"{group}.{field}") in point})
        if missing := [option for option, value in choice.options.items() if value == REQUIRED]:
            raise InputError(f"{group}={name} needs {group}.{missing[0]}; add {missing[0]}=VALUE")
        if group == "strategy" and point.get("tuning") is not None:
            grids = default_grids(point["tuning"], choice)
            choice = choice.at({field: grid for field, grid in grids.items() if f"{group}.{field}" not in point})
        fields[group] = choice
    return schema(**fields)


def _unknown(schema: type[RunConfig], item: Setting, candidates: Sequence[Choice]) -> InputError:
    """Return the error about an unknown key, with the nearest key, the verb that has it, or the option that has it."""
    group, _, field = item.key.rpartition(".")
    if group in group_names(schema):
        chosen = [choice for choice in candidates if choice.key == group]
        fields = [name for choice in chosen for name in choice.options]
        return unknown(f"field of {group} {', '.join(choice.name for choice in chosen)}:", field, fields or ["none"])
    known = [f"{choice.key}.{name}" for choice in candidates for name in choice.options]
    if not group:
        known = [*hints_of(schema), "experiment", *(name.partition(".")[2] for name in known)]
    initials = [name for name in known if "_" in name and item.key == "".join(word[0] for word in name.split("_"))]
    if near := initials or difflib.get_close_matches(item.key.lower(), known, n=1, cutoff=0.8):
        return InputError(f"unknown key {str(item)!r}; did you mean {near[0]!r}?")
    verbs = [verb for verb, other in SCHEMAS.items() if item.key.partition(".")[0] in hints_of(other)]
    if item.experiment:
        verbs = [verb for verb in verbs if accepts(SCHEMAS[verb], item.experiment)] or verbs
    if verbs:
        return InputError(f"{item} is a key of `transduce {verbs[0]}`, not of this verb")
    for verb, other in ({"": schema, **SCHEMAS} if is_mentioned(item.key) else {}).items():
        for kind in (GROUPS[group_of(other, key)] for key in group_names(other)):
            for name in kind.plugins.table if kind.plugins else ():
                if item.key in groups.described(kind.name, name).hints:
                    own = f"omit it, or add {kind.key}={name}, which has it"
                    return InputError(f"unknown key {str(item)!r}; {f'`transduce {verb}` has it' if verb else own}")
    return unknown("key", str(item), known, "--help")
