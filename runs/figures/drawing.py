"""How a figure of a paper is made: the configs it needs, what it reads from their runs, and what it shows.

A figure has a plot for each of the paper's networks. `NAME@BENCHMARK` uses another benchmark and the network conv4
instead, so that one plot is left; for a figure of clustering, `NAME@DATASET` uses another data set. Settings that are
typed override everything else.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from clustering.foundation.errors import InputError
from runs.config import groups
from runs.config.base import PLACES, group_names, group_of
from runs.config.configs import ClusterConfig, EvaluateConfig, FairConfig, RunConfig, TuneConfig, parse
from runs.stages.lineage import short, weights_name
from runs.storage.locks import Say
from runs.tables.papers.paper import SMALL

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from runs.track import Tracker

C = TypeVar("C", EvaluateConfig, TuneConfig, ClusterConfig, FairConfig, RunConfig)
F = TypeVar("F")


def on_benchmark(name: str) -> dict[str, str]:
    """Settings that replace the paper's benchmark."""
    return {"benchmark": name, "backbone": SMALL}


def anything(configs: Sequence[Any]) -> None:
    """Accept any configs."""


def own_run_id(result: Any) -> list[str]:
    """The id of the one run that a result is from."""
    return [result.run_id]


def either(numbers: Iterable[int]) -> str:
    """Numbers for a caption: "5", or "3 or 5"."""
    return " or ".join(map(str, sorted(set(numbers)))) or "no"


def plot_names(configs: Sequence[EvaluateConfig | TuneConfig]) -> list[str]:
    """Names of the plots of configs: the network, or the file of its weights, and what else differs between them."""
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
    """How one figure is made from the record.

    Attributes:
        schema: class of the configs of its runs.
        settings: settings of the paper, by key.
        networks: settings of each of the paper's networks, on top of `settings`.
        elsewhere: gives the settings, one set or several, that replace `networks` on other data of a name.
        also: aliases of keys in this figure, such as `tasks` for the key that counts them.
        check: raises an `InputError` if configs make no figure, before anything is run for them.
        read: reads the result of a config from the record; None, with a message, if there is no complete one.
        run_ids: gives the ids of the runs behind something read.
        draw: draws the figure of everything read, in order.
        caption: gives its caption.
        revision: raise it with a change of the drawing, so that it is drawn again.
    """

    schema: type[C]
    settings: Mapping[str, str]
    networks: Sequence[Mapping[str, str]] = ({},)
    elsewhere: Callable[[str], Mapping[str, str] | Sequence[Mapping[str, str]]] = on_benchmark
    also: Mapping[str, str] = field(default_factory=dict)
    check: Callable[[Sequence[C]], object] = anything
    read: Callable[[C, "Tracker", Say], F | None]
    run_ids: Callable[[F], Sequence[str]] = own_run_id
    draw: Callable[[Sequence[F]], "Figure"]
    caption: Callable[[Sequence[F]], str]
    revision: int = 1

    def configs(self, name: str, variant: str, typed: Sequence[str], say: Say) -> list[C]:
        """The configs that it needs, each once, with the settings that were typed.

        Args:
            name: name of the figure, for messages.
            variant: data that replace the paper's; empty for the paper's own.
            typed: settings as `key=value`.
            say: called with a message for each network that is left out.

        Raises:
            InputError: no network gives a config, or the configs make no figure.
        """
        given = [self._renamed(setting) for setting in typed]
        given_there = self.elsewhere(variant) if variant else self.networks
        networks = [given_there] if isinstance(given_there, Mapping) else given_there
        wanted: list[C] = []
        problems: dict[str, InputError] = {}
        has_files = [self._has_files(network) for network in networks]
        for network, takes_folder in zip(networks, has_files, strict=True):
            # In a figure of data sets with and without files, a folder is that of those with files.
            here = given if takes_folder or not any(has_files) else [one for one in given if _key(one) not in PLACES]
            try:
                configs = parse(self.schema, here, {**self.settings, **network})
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

    def _renamed(self, setting: str) -> str:
        _, equals, value = setting.partition("=")
        return self.also.get(_key(setting), _key(setting)) + equals + value

    def _has_files(self, network: Mapping[str, str]) -> bool:
        """Whether the data of a network may be files: its data set has a folder, or it names none."""
        name = {**self.settings, **network}.get("dataset")
        if name is None or "dataset" not in group_names(self.schema):
            return True
        return not groups.option(group_of(self.schema, "dataset"), name).options.keys().isdisjoint(PLACES)


def _key(setting: str) -> str:
    return setting.partition("=")[0].strip()


AnyDrawing = Drawing[Any, Any]
