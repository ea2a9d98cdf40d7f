"""Resolution of command-line arguments to fields of configs: the target of each key, and the product of all values."""

import difflib
import itertools
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from clustering.foundation.errors import InputError, unknown
from clustering.foundation.parameters import mismatch
from runs.config import groups, overrides
from runs.config.base import FILES, PLACES, RunConfig, group_names, group_of, hints_of, top_level
from runs.config.groups import GROUPS, REQUIRED, Choice
from runs.config.overrides import Grid, Value
from runs.config.schemas import SCHEMAS
from runs.config.timm_names import check_backbone
from runs.config.tuning_protocol import default_grids, grid_of


@dataclass(frozen=True)
class Assignment:
    """One `key=text` with its origin: "" for the command line, otherwise the experiment."""

    key: str
    text: str
    origin: str = ""

    def __str__(self) -> str:
        return f"{self.origin}: {self.key}" if self.origin else self.key


@dataclass(frozen=True)
class Target:
    """The target of a key: a field of a group's option, a top-level field (empty group), or a group (empty field)."""

    group: str
    field: str


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
    if path.suffix not in (".yaml", ".yml"):
        known = groups.names("experiment")
        if name not in known:
            raise unknown("experiment", name, known or ["FILE.yaml"])
        path = groups.folder() / "experiment" / f"{name}.yaml"
    content = groups.read(path)
    each = content.pop("each", [{}])
    if not (isinstance(each, list) and each and all(isinstance(line, dict) for line in each)):
        raise InputError(f"{path}: each must be a list of settings, as - {{shot: 1, tasks: 100}}")
    chosen = {group.key for group in groups.GROUPS.values()}
    for key, value in itertools.chain(content.items(), *(line.items() for line in each)):
        if key in chosen and isinstance(value, dict):
            raise InputError(f"{path}: {key} must be a name; each field has its own line, as `{key}.FIELD: value`")
        if key in chosen and isinstance(value, list):
            several = ",".join(map(str, value))
            raise InputError(f"{path}: {key} is a list; separate several options by commas, as `{key}: {several}`")
    together = list(dict.fromkeys(str(key) for line in each for key in line))
    present = {item.key.rpartition(".")[2] for item in typed}.intersection(together)
    if 0 < len(present) < len(together):
        raise InputError(
            f"experiment {name}: {', '.join(together)} vary together; give all of them or none, not only "
            f"{', '.join(sorted(present))}"
        )
    return [
        [
            Assignment(str(key), value if isinstance(value, str) else overrides.write(value), f"experiment {name}")
            for key, value in (*content.items(), *line.items())
        ]
        for line in each
    ]


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
    chosen = _chosen(schema, overlay, typed)
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
                names = f"{first} and {second}, which both set {_dotted(target)}" if first != second else first
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
            varied[target] = [grid_of(_dotted(target), values, values[0])]
    return varied


def _chosen(
    schema: type[RunConfig], overlay: Sequence[Assignment], typed: Sequence[Assignment]
) -> dict[str, list[str]]:
    chosen: dict[str, list[str]] = {}
    for group in group_names(schema):
        lines = [item for item in (*overlay, *typed) if item.key == group]
        if lines:
            chosen[group] = [value.text for value in overrides.values(group, lines[-1].text)]
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
    group, dot, field = item.key.rpartition(".")
    owners = {choice.key for choice in candidates if field in choice.options and group in ("", choice.key)}
    if len(owners) == 1:
        return Target(owners.pop(), field)
    if owners:
        ways = " or ".join(f"{owner}.{field}" for owner in sorted(owners))
        raise InputError(f"{item}: more than one group has this field; write {ways}")
    if dot and group in group_names(schema):
        options = [choice for choice in candidates if choice.key == group]
        names = ", ".join(choice.name for choice in options)
        if not any(choice.options for choice in options):
            raise InputError(f"unknown key {item.key!r}: {group} {names} has no fields; omit it")
        fields = sorted({name for choice in options for name in choice.options})
        near = difflib.get_close_matches(field.lower(), fields, n=1, cutoff=0.6)
        remedy = f"did you mean {group}.{near[0]}?" if near else f"fields: {', '.join(fields)}"
        raise InputError(f"{group} {names} has no field {field!r} ({item}); {remedy}")
    raise _unknown(schema, item, candidates)


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
    own = _chosen(schema, overlay, [])
    options = (groups.option(group_of(schema, key), name) for key, names in own.items() for name in names)
    return any(field in choice.options and group in ("", choice.key) for choice in options)


def _unknown(schema: type[RunConfig], item: Assignment, candidates: Sequence[Choice]) -> InputError:
    first = item.key.partition(".")[0]
    verbs = [
        verb
        for verb, other in SCHEMAS.items()
        if other is not schema and first in {*group_names(other), *(f.name for f in top_level(other))}
    ]
    if verbs:
        kind, _, name = item.origin.partition(" ")
        experiment_verbs = [verb for verb in verbs if kind == "experiment" and accepts(SCHEMAS[verb], name)]
        return _of_another_verb(item, [*experiment_verbs, *verbs][0], bool(experiment_verbs))
    other_options = [
        choice
        for group in group_names(schema)
        if group != "backbone"
        for choice in _files(group_of(schema, group))
        if item.key in choice.options
    ]
    if other_options:
        owner = other_options[0]
        choices = [choice for choice in candidates if choice.key == owner.key]
        files = any(field in choice.options for choice in choices for field in FILES)
        needless = " and needs no files" if item.key in PLACES and not files else ""
        return InputError(
            f"unknown key {str(item)!r}: {owner.key} {', '.join(choice.name for choice in choices)} does not have this "
            f"field{needless}; omit it, or add {owner.key}={owner.name}, which has it"
        )
    for verb, other in SCHEMAS.items():
        for group in _groups(other) - _groups(schema):
            if any(item.key in choice.options for choice in _files(group)):
                return _of_another_verb(item, verb)
    bare = [name for choice in candidates for name in choice.options]
    dotted = [f"{choice.key}.{name}" for choice in candidates for name in choice.options]
    top = [*group_names(schema), *(field.name for field in top_level(schema)), "experiment"]
    known = dotted if "." in item.key else [*top, *bare]
    if difflib.get_close_matches(item.key.lower(), known, n=1, cutoff=0.6):
        if item.origin:
            return InputError(f"{item}: {unknown('key', item.key, known)}")
        return unknown("key", str(item), known)
    return InputError(f"unknown key {str(item)!r}; known: {', '.join(top)}, and fields of the groups (see --help)")


def accepts(schema: type[RunConfig], name: str) -> bool:
    """Return whether a verb, given by the class of its configs, accepts all keys and options of an experiment.

    Raises:
        InputError: as `experiment`.
    """
    return all(_takes(schema, lines) for lines in experiment(name))


def _takes(schema: type[RunConfig], lines: Sequence[Assignment]) -> bool:
    try:
        chosen = _chosen(schema, lines, [])
        candidates = [groups.option(group_of(schema, key), name) for key, options in chosen.items() for name in options]
    except InputError:
        return False
    known = {*group_names(schema), *(field.name for field in top_level(schema))}
    known |= {name for choice in candidates for field in choice.options for name in (field, f"{choice.key}.{field}")}
    return all(item.key in known for item in lines)


def _of_another_verb(item: Assignment, verb: str, of_experiment: bool = False) -> InputError:
    """Return the error about a key of another verb.

    Args:
        item: the key.
        verb: the verb that has the key.
        of_experiment: whether the verb accepts the whole experiment of the key.
    """
    remedy = "omit it here"
    if item.origin.startswith("experiment "):
        command = f"`transduce {verb} {item.origin.replace(' ', '=', 1)}`"
        shows = " and prints its table" if verb in ("cluster", "fair") else ""
        remedy = f"{command} accepts the experiment{shows}" if of_experiment else f"try {command}"
    return InputError(f"{item} is a key of `transduce {verb}`, not of this verb; {remedy}")


def _groups(schema: type[RunConfig]) -> set[str]:
    return {group_of(schema, key) for key in group_names(schema)}


def _files(group: str) -> list[Choice]:
    options = []
    for path in sorted((groups.folder() / group).glob("*.yaml")):
        options.append(groups.option(group, path.stem))
    return options


def _values(schema: type[RunConfig], item: Assignment, target: Target, candidates: Sequence[Choice]) -> list[Any]:
    if not target.group:
        fields = {field.name: field for field in top_level(schema)}
        hint = hints_of(schema)[item.key]
        lists = isinstance(fields[item.key].default, tuple)
        lists = lists or (mismatch((), hint) is None and not _is_null(item))  # a list that may be null
        text = _as_list(item) if lists else item.text
        parsed = overrides.values(item.key, text)
        if text != item.text:
            parsed = [value._replace(text=item.text) for value in parsed]
        return [_top_level(schema, item, value, candidates) for value in parsed]
    defaults = [
        choice.options[target.field]
        for choice in candidates
        if choice.key == target.group and target.field in choice.options
    ]
    several = len(overrides.values(item.key, item.text)) > 1
    text = _as_list(item) if isinstance(defaults[0], tuple) and (several or not defaults[0]) else item.text
    values = overrides.values(item.key, text)
    default = None if defaults[0] == REQUIRED else defaults[0]
    return [groups.freeze(overrides.coerce(str(item), value, default)) for value in values]


def _as_list(item: Assignment) -> str:
    """Return the text of a list: a,b becomes [a,b], and null becomes []."""
    if _is_null(item):
        return "[]"
    return item.text if "[" in item.text else f"[{item.text}]"


def _is_null(item: Assignment) -> bool:
    return item.text.lower() in ("null", "none")


def _top_level(schema: type[RunConfig], item: Assignment, typed: Value, candidates: Sequence[Choice]) -> Any:
    hint = hints_of(schema)[item.key]
    value = groups.freeze(typed.value)
    if value is not None and not isinstance(value, str) and mismatch("", hint) is None:
        value = typed.text  # 2024 stays text in a field of type text
    problem = mismatch(value, hint)
    if problem and isinstance(value, tuple):  # 2024 stays text in a list of texts
        texts = tuple(part.text for part in overrides.values(item.key, item.text.removeprefix("[").removesuffix("]")))
        if mismatch(texts, hint) is None:
            value, problem = texts, None
    if problem:
        others = [f"{choice.key}.{item.key}" for choice in candidates if item.key in choice.options]
        also = f" (another key is {others[0]})" if others else ""
        raise InputError(f"{item} must be {problem}, not {typed.text!r}{also}")
    return value


def _fields(schema: type[RunConfig], point: dict[Target, Any]) -> dict[str, Any]:
    fields: dict[str, Any] = {target.field: value for target, value in point.items() if not target.group}
    for group in group_names(schema):
        name = point.get(Target(group, ""))
        if name is None:
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


def _dotted(target: Target) -> str:
    return f"{target.group}.{target.field}" if target.group and target.field else target.group or target.field


__all__ = ["GROUPS", "accepts", "experiment", "resolve"]
