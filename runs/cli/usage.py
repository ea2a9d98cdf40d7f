"""The help text of verbs with a config: groups and their options, keys, and fields of the chosen options."""

import textwrap
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from runs.cli import flags
from runs.config import groups
from runs.config.configs import RunConfig, group_names, group_of, parse, top_level
from runs.config.groups import GROUPS, Choice
from runs.config.overrides import write

WIDTH = 108


def usage(
    verb: str,
    summary: str,
    schema: type[RunConfig],
    allowed: Sequence[str],
    examples: Sequence[str],
    settings: Sequence[str],
    *,
    configs: Sequence[RunConfig] = (),
    defaults: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """Write the help text, with the fields of the options that the settings choose.

    Args:
        settings: the keys given with --help.
        configs: the configs of the settings, if the verb changes them after parsing.
        defaults: default options of groups, if the verb has its own.
    """
    chosen: list[Choice] = []
    for config in configs or parse(schema, settings):
        chosen += [choice for choice in config.choices().values() if choice not in chosen]
    offered = [_group(group_of(schema, key), defaults) for key in group_names(schema)]
    parts = [
        f"usage: transduce {verb} [key=value ...] [--flag ...]",
        summary,
        "groups (GROUP=OPTION):\n" + "\n".join([*offered, _files(schema)]),
        "keys:\n" + _columns([(f"{f.name}={write(f.default)}", f.metadata["about"]) for f in top_level(schema)]),
        "\n\n".join(_option(choice) for choice in chosen if choice.options),
        "A field may be written without its group (weight=0.5) if only one group has it. A key with several\n"
        "values, as in shot=1,5, starts one run for each value; [45, 66] is a single value, a list.",
        "flags:\n" + flags.describe(allowed),
        "examples:\n" + "\n".join(f"  transduce {verb} {example}".rstrip() for example in examples),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _group(name: str, defaults: Mapping[str, str]) -> str:
    group = GROUPS[name]
    default = defaults.get(group.key, group.default)
    if name == "training":
        default = "the option called BENCHMARK_BACKBONE or BENCHMARK if there is one, else default"
    text = f"{group.key:<11} {group.about}: {', '.join(groups.names(name))} (default: {default})"
    return textwrap.fill(text, WIDTH, initial_indent="  ", subsequent_indent=" " * 14)


def _files(schema: type[RunConfig]) -> str:
    """Return keys that choose a file of settings rather than an option of a group."""
    rows = {"experiment": "keys and values from a file; your own settings override them"}
    if any(field.name == "selection" and field.default is None for field in top_level(schema)):  # a file, not a method
        rows = {"selection": "settings among which the labels select one"}
    if any(field.name == "tuning" for field in top_level(schema)):
        rows["tuning"] = "protocol for choosing a strategy's parameters"
    has_benchmark = "benchmark" in group_names(schema)  # packaged experiments need a benchmark
    offers = {
        name: [*(groups.names(name) if has_benchmark or name != "experiment" else ()), "or FILE.yaml"] for name in rows
    }
    lines = [f"{name:<11} {comment}: {', '.join(offers[name]).removeprefix('or ')}" for name, comment in rows.items()]
    return "\n".join(textwrap.fill(line, WIDTH, initial_indent="  ", subsequent_indent=" " * 14) for line in lines)


def _option(choice: Choice) -> str:
    comments = groups.comments(choice.group, choice.name)
    rows = [(f"{choice.key}.{key}={write(value)}", comments.get(key, "")) for key, value in choice.options.items()]
    return f"fields of {choice.key}={choice.name}:\n" + _columns(rows)


def _columns(rows: Sequence[tuple[str, str]]) -> str:
    width = min(38, max((len(left) for left, _ in rows), default=0))
    lines = []
    for left, right in rows:
        first = f"  {left:<{width}}  "
        indent = " " * (width + 4)
        lines.append(textwrap.fill(right, WIDTH, initial_indent=first, subsequent_indent=indent) or first.rstrip())
    return "\n".join(lines)
