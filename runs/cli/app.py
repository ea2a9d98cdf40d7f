"""What the verbs share: the typer application, settings of the form key=value, and help that lists the keys.

A verb with a config takes its keys as `key=value`, or as flags: `--support FOLDER` is `support=FOLDER`. The flags of
any verb may be written as `key=value`, too.
"""

import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Any, ClassVar, TypeVar

import typer
from typer.core import TyperCommand

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
TRAINING = "the option called BENCHMARK_BACKBONE or BENCHMARK if there is one, else default"
EXPERIMENT = "keys and values from a file, which your own override: FILE.yaml, or a name (transduce list experiments)"
KEYS = (
    "A field may be written without its group (weight=0.5) if only one group has it. A key with several values, as in "
    "shot=1,5, starts one run for each; [45, 66] is one value, a list. Text with commas, brackets or numbers needs "
    "quotes, also for the shell: \"columns='null'\"."
)
F = TypeVar("F", bound=Callable[..., Any])


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


class Verb(TyperCommand):
    """A verb whose flags may be written as settings, and the keys of its config as flags."""

    schema: ClassVar[type[RunConfig] | None] = None  # class of the configs; None: it takes no config
    positional: ClassVar[tuple[str, ...]] = ()  # keys whose values may be words without a key, in this order

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        words = list(self._words(iter(args)))
        ctx.meta["words"] = [word for word in words if "=" in word and not word.startswith("-")]
        return super().parse_args(ctx, words)

    def _words(self, left: Iterator[str]) -> Iterator[str]:
        """Yield the arguments: flags that are keys as settings, settings that are flags as flags."""
        own = {option for parameter in self.params for option in parameter.opts} | {"-h", "--help"}
        hints = {} if self.schema is None else hints_of(self.schema)
        places = iter(self.positional)
        for word in left:
            flag, equals, value = word.partition("=")
            key = flag.lstrip("-").replace("-", "_")
            option = f"--{key.replace('_', '-')}"
            if not equals and not word.startswith("-"):
                place = next(places, "")
                yield f"{place}={write(word)}" if place else word
            elif flag in own or option in own:
                yield from [] if value.lower() in ("null", "none") else [f"{option}={value}" if equals else word]
            elif hints and word.startswith("-"):
                if not equals and key not in hints:
                    raise unknown("flag", flag, [*own, *(f"--{name.replace('_', '-')}" for name in hints)])
                value = value if equals else next(left, "")
                if not value or value.startswith("--"):
                    raise InputError(f"{flag} needs a value: {flag} VALUE, or {key}=VALUE")
                hint = hints.get(key, bool)
                is_text = hint is not Choice and mismatch("", hint) is None and mismatch(("",), hint)
                yield f"{key}={write(value) if is_text else value}"  # the commas of a path belong to it
            elif own.isdisjoint(("settings", "kinds")) and not word.startswith("-"):
                raise unknown("key", key, [one[2:].replace("-", "_") for one in own if one.startswith("--")])
            else:
                yield word

    def format_help(self, ctx: Any, formatter: Any) -> None:
        super().format_help(ctx, formatter)
        if self.schema is not None:
            for heading, rows in _sections(self.schema, ctx.meta.get("words", ())):
                with formatter.section(heading):
                    formatter.write_dl(rows, col_max=40)
            formatter.write_paragraph()
            formatter.write_text(KEYS)


def _sections(schema: type[RunConfig], settings: Sequence[str]) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Yield the sections of a verb's help: groups, top-level keys, fields of the chosen options."""
    offered = [(key, GROUPS[group_of(schema, key)]) for key in group_names(schema)]
    rows = [("experiment", EXPERIMENT)]
    for key, group in reversed(offered):
        default = TRAINING if key == "training" else schema.defaults.get(key, group.default)
        rows.insert(0, (key, f"{group.about}: {', '.join(groups.names(group.name))} (default: {default})"))
    yield "Groups (GROUP=OPTION)", rows
    rows = [
        (
            f"{one.name}.KEY" if one.default_factory is dict else f"{one.name}={write(one.default)}",
            one.metadata["about"],
        )
        for one in top_level(schema)
    ]
    yield "Keys", rows
    chosen = [choice for config in parse(schema, settings) for choice in config.choices().values()]
    for choice in (choice for i, choice in enumerate(chosen) if choice.options and choice not in chosen[:i]):
        about = groups.comments(choice.group, choice.name)
        fields = [(f"{choice.key}.{key}={write(value)}", about.get(key, "")) for key, value in choice.options.items()]
        yield f"Fields of {choice.key}={choice.name}", fields


app = typer.Typer(
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "terminal_width": WIDTH},
)


def verb(name: str, *, group: typer.Typer = app, **attributes: Any) -> Callable[[F], F]:
    """Register a function as a verb, of the application or of a group of verbs, with attributes of `Verb`."""

    def register(function: F) -> F:
        text = inspect.cleandoc(function.__doc__ or "").replace("\nExamples:", "\n\b\nExamples:")
        kind = type("Verb", (Verb,), attributes)
        return group.command(name.rpartition(" ")[2], cls=kind, help=text)(function)

    return register


def console(*, as_json: bool = False) -> Console:
    """Return the console of a verb."""
    return Console(quiet=QUIET[0], as_json=as_json)


def one(configs: Sequence[Any], verb: str) -> Any:
    """Return the only config."""
    if len(configs) > 1:
        raise InputError(f"{verb} accepts one value of every key")
    return configs[0]


def named(settings: Sequence[str] | None, verb: str, remedy: str) -> tuple[str, list[str]]:
    """Return the name that a verb takes as its only word, and the settings."""
    words = [word for word in settings or () if "=" not in word]
    if len(words) != 1:
        raise InputError(f"give one name: transduce {verb} NAME [key=value ...]; {remedy}")
    return words[0], [setting for setting in settings or () if "=" in setting]
