"""Resolution of command-line arguments to fields of configs: the target of each key, and the product of all values."""

import itertools
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from omegaconf import OmegaConf

from clustering.foundation.errors import InputError, unknown
from runs.config import groups, overrides
from runs.config.base import RunConfig, group_names, group_of, hints_of, mappings, top_level
from runs.config.conversion import as_list, convert, takes_lists
from runs.config.groups import GROUPS, Choice
from runs.config.networks import check_backbone
from runs.config.overrides import Grid
from runs.config.source import REQUIRED
from runs.config.tuning_protocol import default_grids, grid_of
from runs.config.unknown_keys import unknown_key
from runs.config.yaml_files import is_yaml, read


@dataclass(frozen=True)
class Assignment:
    """One `key=text` with its origin: "" for the command line, otherwise the experiment.

    Attributes:
        listed: whether the text is a list of a file, which gives several values to a key that takes no lists.
    """

    key: str
    text: str
    origin: str = ""
    listed: bool = False

    def __str__(self) -> str:
        return f"{self.origin}: {self.key}" if self.origin else self.key


@dataclass(frozen=True)
class Target:
    """The target of a key: a field of a group's option, a top-level field (empty group), or a group (empty field)."""

    group: str
    field: str

    def __str__(self) -> str:
        return f"{self.group}.{self.field}" if self.group and self.field else self.group or self.field


TUNING = Target("", "tuning")


def resolve(
    schema: type[RunConfig], arguments: Sequence[str], under: Mapping[str, str] | None = None, origin: str = ""
) -> list[dict[str, Any]]:
    """Return the fields of all distinct configs of the arguments, in order. The arguments override `under`."""
    typed = [Assignment(*overrides.split(argument)) for argument in _keyed(schema, arguments)]
    overlays = [item for item in typed if item.key == "experiment"]
    typed = [item for item in typed if item.key != "experiment"]
    if len(overlays) > 1:
        raise InputError("experiment is given twice; for several experiments, write experiment=a,b")
    experiments = overrides.values("experiment", overlays[0].text) if overlays else []
    below = [Assignment(key, text, origin) for key, text in (under or {}).items()]
    configs: list[dict[str, Any]] = []
    for overlay in [lines for name in experiments for lines in experiment(name.text, typed)] or [below]:
        configs += [fields for fields in _resolve(schema, overlay, typed) if fields not in configs]
    for name in {fields["backbone"].name for fields in configs if isinstance(fields.get("backbone"), Choice)}:
        check_backbone(name, groups.names("backbone"))
    return configs


def experiment(name: str, typed: Sequence[Assignment] = ()) -> list[list[Assignment]]:
    """Return the assignments of an experiment: one list, or one for each entry of `each`, whose settings vary together.

    The experiment is given by its name in `configs/experiment/` or by the path of a YAML file.

    Raises:
        InputError: the experiment does not exist; `each` is not a list of settings; or the command line sets some but
            not all keys of `each`, which would combine unrelated settings.
    """
    path = pathlib.Path(name)
    if not is_yaml(name):
        known = groups.names("experiment")
        if name not in known:
            raise unknown("experiment", name, known or ["FILE.yaml"])
        path = groups.folder() / "experiment" / f"{name}.yaml"
    content = read(path)
    if "defaults" in content:
        raise InputError(
            f"{path}: there is no list of defaults; write each option as a line, as `strategy: laplacianshot`, its "
            "fields below it as `strategy: {name: laplacianshot, weight: 0.5}`, and several options as "
            "`strategy: [simpleshot, laplacianshot]`"
        )
    each = content.pop("each", [{}])
    if not (isinstance(each, list) and each and all(isinstance(line, dict) for line in each)):
        raise InputError(f"{path}: each must be a list of settings, as - {{shot: 1, tasks: 100}}")
    shared, *lines = [dict(_leaves(settings, path)) for settings in (content, *each)]
    together = list(dict.fromkeys(key for line in lines for key in line))
    present = {item.key.rpartition(".")[2] for item in typed}.intersection(together)
    if 0 < len(present) < len(together):
        raise InputError(
            f"experiment {name}: {', '.join(together)} vary together; give all of them or none, not only "
            f"{', '.join(sorted(present))}"
        )
    origin = f"experiment {name}"
    return [
        [
            Assignment(
                key, value if isinstance(value, str) else overrides.write(value), origin, isinstance(value, list)
            )
            for key, value in (*shared.items(), *line.items())
        ]
        for line in lines
    ]


def _leaves(settings: Mapping[str, Any], path: pathlib.Path, above: str = "") -> Iterator[tuple[str, Any]]:
    """Yield nested settings in dotted form: `strategy: {name: a, weight: 1}` is strategy=a strategy.weight=1."""
    groups_by_key = {group.key: group for group in GROUPS.values()}
    for name, value in settings.items():
        key = f"{above}.{name}" if above else str(name)
        if above in groups_by_key and name == "name":
            yield above, value
        elif isinstance(value, dict) and (value or key in groups_by_key):
            fields = [field for field in value.values() if not isinstance(field, dict)]
            if key in groups_by_key and not fields:
                raise InputError(
                    f"{path}: {key} must be a name, or its fields: `{key}: NAME`, and `{key}.FIELD: value` or "
                    f"`{key}: {{name: NAME, FIELD: value}}`"
                )
            yield from _leaves(value, path, key)
        else:
            yield key, value


def _keyed(schema: type[RunConfig], arguments: Sequence[str]) -> Iterator[str]:
    for argument, following in itertools.zip_longest(arguments, arguments[1:]):
        if "=" not in argument:
            plain = following is not None and "=" not in following
            example = f"{argument}={following if plain else 'VALUE'}"
            known = [*group_names(schema), *(field.name for field in top_level(schema)), "experiment"]
            if argument not in known:
                example = "key=value, as in benchmark=glyphs"
            raise InputError(f"{argument!r} is not of the form key=value; write {example}")
        yield argument


def _resolve(
    schema: type[RunConfig], overlay: Sequence[Assignment], typed: Sequence[Assignment]
) -> list[dict[str, Any]]:
    chosen = chosen_options(schema, overlay, typed)
    candidates = [groups.option(group_of(schema, key), name) for key, options in chosen.items() for name in options]
    axes: dict[Target, list[Any]] = {}
    for group in group_names(schema):
        if not any(item.key == group for item in (*overlay, *typed)) and group != "training":
            axes[Target(group, "")] = list(chosen[group])
    for source in (overlay, typed):
        assignments: dict[Target, Assignment] = {}
        for item in source:
            if source is overlay and _replaced(schema, item, overlay, candidates):
                continue
            target = _target(schema, item, candidates)
            if target in assignments:
                first, second = assignments[target].key, item.key
                names = f"{first} and {second}, which both set {target}" if first != second else first
                raise InputError(f"given twice: {names}; give it once (several values: {first}=a,b)")
            assignments[target] = item
            axes[target] = chosen[target.group] if not target.field else _values(schema, item, target, candidates)
    configs: list[dict[str, Any]] = []
    for protocol in _protocols(schema, axes):
        choices = _with(protocol, axes)
        tuned: dict[tuple[str, str], dict[str, Grid]] = {}  # grids by strategy, to read the file once for each
        for combination in itertools.product(*choices.values()):
            point = dict(zip(choices, combination, strict=True))
            fields = _fields(schema, point)
            if protocol is not None:
                strategy = fields["strategy"]
                if (strategy.name, strategy.plugin) not in tuned:
                    tuned[strategy.name, strategy.plugin] = default_grids(protocol, strategy)
                grids = tuned[strategy.name, strategy.plugin]
                not_given = {name: grid for name, grid in grids.items() if Target("strategy", name) not in point}
                fields["strategy"] = fields["strategy"].at(not_given)
            if fields not in configs:
                configs.append(fields)
    return configs


def _protocols(schema: type[RunConfig], axes: Mapping[Target, list[Any]]) -> list[str | None]:
    """Return the tuning protocols; None without tuning, and for verbs without the key `tuning`."""
    defaults = {field.name: field.default for field in top_level(schema)}
    return axes.get(TUNING, [defaults.get(TUNING.field)])


def _with(protocol: str | None, axes: Mapping[Target, list[Any]]) -> dict[Target, list[Any]]:
    """Return the axes under one protocol; with a protocol, several values of a strategy's field become a grid."""
    varied = {target: [protocol] if target == TUNING else values for target, values in axes.items()}
    for target, values in axes.items():
        if protocol is not None and target.group == "strategy" and target.field and len(values) > 1:
            varied[target] = [grid_of(str(target), values)]
    return varied


def chosen_options(
    schema: type[RunConfig], overlay: Sequence[Assignment], typed: Sequence[Assignment]
) -> dict[str, list[str]]:
    """Return the names of the options of each group that the assignments choose, or else of its default."""
    chosen: dict[str, list[str]] = {}
    for group in group_names(schema):
        lines = [item for item in (*overlay, *typed) if item.key == group]
        if lines:
            text = lines[-1].text
            text = text[1:-1] if text.startswith("[") and text.endswith("]") else text
            chosen[group] = [value.text for value in overrides.values(group, text)]
        elif group == "training":
            pairs = itertools.product(chosen["benchmark"], chosen["backbone"])
            chosen[group] = list(dict.fromkeys(groups.default(group, *pair) for pair in pairs))
        else:
            chosen[group] = groups.default(group_of(schema, group)).split(",")
    return chosen


def _target(schema: type[RunConfig], item: Assignment, candidates: Sequence[Choice]) -> Target:
    if item.key in group_names(schema):
        return Target(item.key, "")
    if any(item.key == field.name for field in top_level(schema)):
        return Target("", item.key)
    group, _, field = item.key.rpartition(".")
    if item.key.partition(".")[0] in mappings(schema):
        return Target("", item.key)
    owners = {choice.key for choice in candidates if field in choice.options and group in ("", choice.key)}
    if len(owners) == 1:
        return Target(owners.pop(), field)
    if owners:
        ways = " or ".join(f"{owner}.{field}" for owner in sorted(owners))
        raise InputError(f"{item}: more than one group has this field; write {ways}")
    kind, _, name = item.origin.partition(" ")
    takers = [name] if kind == "experiment" else []
    raise unknown_key(schema, item.key, str(item), candidates, lambda other: all(accepts(other, one) for one in takers))


def _replaced(
    schema: type[RunConfig], item: Assignment, overlay: Sequence[Assignment], candidates: Sequence[Choice]
) -> bool:
    """Return whether a key of an experiment is a field of the experiment's options only, and others were typed."""
    if not item.origin.startswith("experiment "):
        return False
    group, _, field = item.key.rpartition(".")
    top = {*group_names(schema), *(key.name for key in top_level(schema))}
    if item.key in top or any(field in choice.options for choice in candidates):
        return False
    own = chosen_options(schema, overlay, [])
    options = (groups.option(group_of(schema, key), name) for key, names in own.items() for name in names)
    return any(field in choice.options and group in ("", choice.key) for choice in options)


def accepts(schema: type[RunConfig], name: str) -> bool:
    """Return whether a verb, given by the class of its configs, accepts all keys and options of an experiment.

    Raises:
        InputError: as `experiment`.
    """
    return all(_takes(schema, lines) for lines in experiment(name))


def _takes(schema: type[RunConfig], lines: Sequence[Assignment]) -> bool:
    try:
        chosen = chosen_options(schema, lines, [])
        candidates = [groups.option(group_of(schema, key), name) for key, options in chosen.items() for name in options]
    except InputError:
        return False
    known = {*group_names(schema), *(field.name for field in top_level(schema))}
    known |= {name for choice in candidates for field in choice.options for name in (field, f"{choice.key}.{field}")}
    return all(item.key in known or item.key.partition(".")[0] in mappings(schema) for item in lines)


def _values(schema: type[RunConfig], item: Assignment, target: Target, candidates: Sequence[Choice]) -> list[Any]:
    """Return the values of a key, converted to its type."""
    if target.group:
        choice = next(c for c in candidates if c.key == target.group and target.field in c.options)
        kind = groups.described(choice.group, choice.plugin)
        hint, default = kind.hints[target.field], kind.defaults[target.field]
    else:
        hint, default = hints_of(schema).get(target.field, Any), None
    text = item.text
    if target.field in hints_of(schema) and not target.group and target.field in mappings(schema):
        hint = dict
    elif takes_lists(hint):
        text = as_list(item.key, text, hint)
    elif item.listed and hint is not Any:
        text = text[1:-1]
    also = [f"{choice.key}.{item.key}" for choice in candidates if not target.group and item.key in choice.options]
    place = str(item) if not also else f"{item} (another key is {also[0]})"
    return [convert(place, value, hint, default) for value in overrides.values(item.key, text)]


def _fields(schema: type[RunConfig], point: dict[Target, Any]) -> dict[str, Any]:
    below = set(mappings(schema))
    fields: dict[str, Any] = {
        target.field: value for target, value in point.items() if not target.group and target.field not in below
    }
    for key in below:
        mapping = OmegaConf.create(dict(fields.pop(key, {})))
        for target, value in point.items():
            if not target.group and target.field == key:
                mapping.merge_with(value)
        for name in [name for name in fields if name.startswith(f"{key}.")]:
            OmegaConf.update(mapping, name.removeprefix(f"{key}."), fields.pop(name), force_add=True)
        fields[key] = OmegaConf.to_container(mapping)
    for group in group_names(schema):
        if (target := Target(group, "")) in point:
            name = str(point[target])
        else:
            name = groups.default(group, fields["benchmark"].name, fields["backbone"].name)
        choice = groups.option(group_of(schema, group), name)
        options = dict(choice.options)
        options.update(
            {
                target.field: value
                for target, value in point.items()
                if target.group == group and target.field in options
            }
        )
        missing = [option for option, value in options.items() if value == REQUIRED]
        if missing:
            raise InputError(f"{group}={name} needs {group}.{missing[0]}; add {missing[0]}=VALUE")
        fields[group] = Choice(choice.group, choice.name, options, choice.plugin)
    return fields


__all__ = ["accepts", "experiment", "resolve"]
