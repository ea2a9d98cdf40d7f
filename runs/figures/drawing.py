"""What a figure of a paper is drawn from, and how: which configs it needs, what it reads of them, what it shows.

A figure has a plot for each of the paper's networks. `@BENCHMARK` behind its name puts another benchmark and the
network conv4 in the place of the paper's, so that one plot is left; behind a figure of clustering `@DATASET` does so
with the data set. What is typed goes over everything.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from clustering.foundation.errors import InputError
from runs.config.configs import ClusterConfig, EvaluateConfig, FairConfig, RunConfig, TuneConfig, parse
from runs.stages.lineage import short, weights_name
from runs.storage.locks import Say
from runs.tables.papers.paper import SMALL

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from runs.record.tracking import Tracker

C = TypeVar("C", EvaluateConfig, TuneConfig, ClusterConfig, FairConfig, RunConfig)
F = TypeVar("F")


def on_benchmark(name: str) -> dict[str, str]:
    """Settings that put another benchmark in the place of the paper's."""
    return {"benchmark": name, "backbone": SMALL}


def anything(configs: Sequence[Any]) -> None:
    """Any configs make the figure."""


def plot_names(configs: Sequence[EvaluateConfig | TuneConfig]) -> list[str]:
    """What tells the plots of configs apart: the network, or the file of its weights, and what else differs."""
    parts = [
        (
            short(config.strategy),
            short(config.benchmark),
            weights_name(config) or short(config.backbone),
            f"seed {config.seed}",
        )
        for config in configs
    ]
    kept = [i for i in range(4) if i == 2 or len({part[i] for part in parts}) > 1]
    return [", ".join(part[i] for i in kept) for part in parts]


@dataclass(frozen=True, kw_only=True)
class Drawing(Generic[C, F]):
    """How one figure comes from the record.

    Attributes:
        schema: what a run of it is configured by.
        settings: the paper's, by key.
        networks: settings of the paper's networks, each on top of `settings`.
        elsewhere: settings in their place, or several, on other data of that name.
        also: what a key may be called here besides, as `tasks` for the one that counts them in this figure.
        check: raises an `InputError` where configs make no figure, before anything is run for them.
        read: what the record has of a config; None where it is not whole, and then why is said.
        run_ids: the runs that something read comes from.
        draw: the figure of all that was read, in order.
        caption: what stands below it.
    """

    schema: type[C]
    settings: Mapping[str, str]
    networks: Sequence[Mapping[str, str]] = ({},)
    elsewhere: Callable[[str], Mapping[str, str] | Sequence[Mapping[str, str]]] = on_benchmark
    also: Mapping[str, str] = field(default_factory=dict)
    check: Callable[[Sequence[C]], object] = anything
    read: Callable[[C, "Tracker", Say], F | None]
    run_ids: Callable[[F], Sequence[str]]
    draw: Callable[[Sequence[F]], "Figure"]
    caption: Callable[[Sequence[F]], str]

    def configs(self, name: str, variant: str, typed: Sequence[str], say: Say) -> list[C]:
        """The configs that it needs, each once, under what was typed.

        Args:
            name: of the figure, for messages.
            variant: data in the place of the paper's; empty for the paper's own.
            say: told of networks that are left out.

        Raises:
            InputError: as `parse`, where it is not one network alone that cannot be had; what makes no figure.
        """
        given = [self._key(setting) for setting in typed]
        given_there = self.elsewhere(variant) if variant else self.networks
        networks = [given_there] if isinstance(given_there, Mapping) else given_there
        wanted: list[C] = []
        problems: dict[str, InputError] = {}
        for network in networks:
            try:
                configs = parse(self.schema, given, {**self.settings, **network}, f"figure {name}")
            except InputError as error:
                problems.setdefault(str(error), error)
                continue
            wanted += [config for config in configs if config not in wanted]
        if not wanted:
            raise next(iter(problems.values()))
        self.check(wanted)
        for problem in problems:
            say(f"left out: {problem}")
        return wanted

    def _key(self, setting: str) -> str:
        key, equals, value = setting.partition("=")
        return self.also.get(key.strip(), key) + equals + value


AnyDrawing = Drawing[Any, Any]
