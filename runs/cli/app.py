"""What the verbs share: the typer application, settings of the form key=value, and help that lists the keys.

A verb with a config takes its keys as `key=value`, or as flags: `--support FOLDER` is `support=FOLDER`. A verb without
a config takes its flags as `key=value`, too.
"""

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar

import typer
from typer.core import TyperCommand, TyperGroup

from clustering.foundation.errors import InputError, unknown
from clustering.foundation.parameters import mismatch
from runs.config import groups
from runs.config.base import RunConfig, group_names, group_of, hints_of, top_level
from runs.config.configs import parse
from runs.config.groups import GROUPS, Choice
from runs.config.overrides import write
from runs.console.output import Console

WIDTH = 108
QUIET: list[bool] = [False]  # whether --quiet is given, at any place of the command line
KEYS = """\
A field may be written without its group (weight=0.5) if only one group has it. A key with several values, as in
shot=1,5, starts one run for each value; [45, 66] is one value, a list. Text with commas, brackets or numbers needs
quotes, also for the shell: "columns='null'"."""


ORDER = (
    *("quickstart", "train", "evaluate", "tune", "compare", "tasks", "classify", "label", "next", "cluster", "fair"),
    *("table", "figure", "report", "ui", "list", "config", "data", "import"),
)


class Verbs(TyperGroup):
    """The verbs from first steps to the rest, with a suggestion for a misspelt one."""

    def list_commands(self, ctx: Any) -> list[str]:
        return sorted(self.commands, key=lambda name: ORDER.index(name) if name in ORDER else len(ORDER))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args and ctx.parent is not None:
            raise InputError(f"give an action: {', or '.join(self._forms(ctx))}")
        return super().parse_args(ctx, args)

    def _forms(self, ctx: Any) -> Iterator[str]:
        """Yield the command line of each action, with its arguments."""
        for name, command in self.commands.items():
            words = [str(one.metavar) for one in command.params if one.param_type_name == "argument"]
            yield " ".join([ctx.command_path, name, *words])

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args[0] not in self.commands:
            if ctx.parent is None and (args[0].startswith("-") or "=" in args[0]):
                verbs = ", ".join(self.commands)
                raise InputError(f"the verb must come first: transduce VERB {args[0]} ...; verbs: {verbs}")
            raise unknown("action" if ctx.parent else "verb", args[0], self.commands)
        return super().resolve_command(ctx, args)


app = typer.Typer(
    cls=Verbs,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "terminal_width": WIDTH},
)

Settings = Annotated[list[str] | None, typer.Argument(metavar="key=value", show_default=False, hidden=True)]
DryRun = Annotated[bool, typer.Option("--dry-run", "-n", help="Show the resolved config and the plan, run nothing.")]
Force = Annotated[bool, typer.Option("--force", help="Run again even if a finished result exists.")]
Json = Annotated[bool, typer.Option("--json", help="Write the result as JSON.")]
RunMissing = Annotated[bool, typer.Option("--run-missing", help="First run missing evaluations and clusterings.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]
NoBrowser = Annotated[bool, typer.Option("--no-browser", help="Print the address of the page, open no browser.")]
Results = Annotated[
    str | None, typer.Option(help="Folder of results; default: $TRANSDUCE_RESULTS, else results/ here.")
]


def console(*, as_json: bool = False) -> Console:
    """Return the console of a verb."""
    return Console(quiet=QUIET[0], as_json=as_json)


class Verb(TyperCommand):
    """A verb without a config: `key=value` is the flag `--key value`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        flags = {option for parameter in self.params for option in parameter.opts if option.startswith("--")}
        words = []
        for word in args:
            key, equals, value = word.partition("=")
            flag = f"--{key.replace('_', '-')}"
            if equals and not key.startswith("-"):
                if flag not in flags:
                    raise unknown("key", key, [option.lstrip("-").replace("-", "_") for option in sorted(flags)])
                if value.lower() in ("null", "none"):
                    continue
                word = f"{flag}={value}"
            words.append(word)
        return super().parse_args(ctx, words)


class ConfigVerb(TyperCommand):
    """A verb whose settings are the keys of a config."""

    schema: ClassVar[type[RunConfig]]
    defaults: ClassVar[Mapping[str, str]] = {}
    positional: ClassVar[tuple[str, ...]] = ()

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        words = self._settings(args)
        ctx.meta["words"] = [word for word in words if "=" in word and not word.startswith("-")]
        return super().parse_args(ctx, words)

    def _settings(self, args: Sequence[str]) -> list[str]:
        """Return the arguments with flags that are keys as settings, and words that are values of keys likewise."""
        own = {option for parameter in self.params for option in parameter.opts}
        keys = {*group_names(self.schema), *(field.name for field in top_level(self.schema))}
        words: list[str] = []
        left = iter(args)
        places = iter(self.positional)
        for word in left:
            flag, equals, value = word.partition("=")
            key = flag.lstrip("-").replace("-", "_")
            if word.startswith("-") and flag not in own and key in keys:
                value = value if equals else next(left, "")
                if not value or value.startswith("--"):
                    raise InputError(f"{flag} needs a value: {flag} VALUE, or {key}=VALUE")
                words.append(f"{key}={self._quoted(key, value)}")
            elif equals and f"--{flag}" in own:
                words.append(f"--{word}")
            elif word.startswith("--") and flag not in (*own, "--help"):
                if equals:
                    raise InputError(f"{word!r}: keys are written without dashes: {word.lstrip('-')}")
                raise unknown("flag", flag, [*own, "--help", *(f"--{name.replace('_', '-')}" for name in keys)])
            elif "=" not in word and not word.startswith("-") and (place := next(places, "")):
                words.append(f"{place}={write(word)}")
            else:
                words.append(word)
        return words

    def _quoted(self, key: str, value: str) -> str:
        """Return the value of a flag; the commas of a path belong to it."""
        hint = hints_of(self.schema)[key]
        is_text = key not in group_names(self.schema) and mismatch("", hint) is None and mismatch(("",), hint)
        return write(value) if is_text else value

    def format_help(self, ctx: Any, formatter: Any) -> None:
        super().format_help(ctx, formatter)
        formatter.write("\n" + keys_of(self.schema, ctx.meta.get("words", ()), self.defaults))


def takes(
    schema: type[RunConfig], *, defaults: Mapping[str, str] | None = None, positional: tuple[str, ...] = ()
) -> type[ConfigVerb]:
    """Return the class of a verb that takes the keys of a config.

    Args:
        schema: the class of the configs.
        defaults: default options of groups, if the verb has its own.
        positional: keys whose values may be given as words without a key, in this order.
    """
    return type(
        f"{schema.__name__}Verb",
        (ConfigVerb,),
        {"schema": schema, "defaults": defaults or {}, "positional": positional},
    )


def examples(verb: str, *lines: str) -> str:
    """Return the examples of a verb, as the end of its help."""
    return "\b\nExamples:\n" + "\n".join(f"  transduce {verb} {line}".rstrip() for line in lines)


def keys_of(schema: type[RunConfig], settings: Sequence[str], defaults: Mapping[str, str]) -> str:
    """Return the part of a verb's help about its keys: groups, top-level keys, fields of the chosen options."""
    chosen: list[Choice] = []
    for config in parse(schema, settings, defaults):
        chosen += [choice for choice in config.choices().values() if choice not in chosen and choice.options]
    rows = []
    for field in top_level(schema):
        default = {} if field.default_factory is dict else field.default
        rows.append(
            (f"{field.name}.KEY" if default == {} else f"{field.name}={write(default)}", field.metadata["about"])
        )
    parts = [
        "Groups (GROUP=OPTION):\n"
        + "\n".join([*(_group(schema, key, defaults) for key in group_names(schema)), *_files(schema)]),
        "Keys:\n" + columns(rows),
        *(_option(choice) for choice in chosen),
        KEYS,
    ]
    return "\n\n".join(parts) + "\n"


def _group(schema: type[RunConfig], key: str, defaults: Mapping[str, str]) -> str:
    name = group_of(schema, key)
    default = defaults.get(key, GROUPS[name].default)
    if name == "training":
        default = "the option called BENCHMARK_BACKBONE or BENCHMARK if there is one, else default"
    text = f"{key:<11} {GROUPS[name].about}: {', '.join(groups.names(name))} (default: {default})"
    return textwrap.fill(text, WIDTH, initial_indent="  ", subsequent_indent=" " * 14)


def _files(schema: type[RunConfig]) -> list[str]:
    """Return keys that choose a file of settings rather than an option of a group."""
    rows = {"experiment": "keys and values from a file; your own settings override them"}
    names = {field.name: field for field in top_level(schema)}
    if "tuning" in names:
        rows["tuning"] = "protocol for choosing a strategy's parameters"
    packaged = "benchmark" in group_names(schema)
    lines = []
    for name, about in rows.items():
        offered = [*(groups.names(name) if packaged or name != "experiment" else ()), "or FILE.yaml"]
        text = f"{name:<11} {about}: {', '.join(offered).removeprefix('or ')}"
        lines.append(textwrap.fill(text, WIDTH, initial_indent="  ", subsequent_indent=" " * 14))
    return lines


def _option(choice: Choice) -> str:
    about = groups.comments(choice.group, choice.name)
    rows = [(f"{choice.key}.{key}={write(value)}", about.get(key, "")) for key, value in choice.options.items()]
    return f"Fields of {choice.key}={choice.name}:\n" + columns(rows)


def columns(rows: Sequence[tuple[str, str]]) -> str:
    """Return two columns of text, the second wrapped."""
    width = min(38, max((len(left) for left, _ in rows), default=0))
    lines = []
    for left, right in rows:
        first, indent = f"  {left:<{width}}  ", " " * (width + 4)
        lines.append(textwrap.fill(right, WIDTH, initial_indent=first, subsequent_indent=indent) or first.rstrip())
    return "\n".join(lines)


def one(configs: Sequence[Any], verb: str) -> Any:
    """Return the only config.

    Raises:
        InputError: there are several.
    """
    if len(configs) > 1:
        raise InputError(f"{verb} accepts one value of every key")
    return configs[0]


def open_browser(address: str, say: Any) -> None:
    """Open an address in a browser, or say that there is none."""
    import webbrowser

    if not webbrowser.open(address):
        say("no browser found to open the page")
