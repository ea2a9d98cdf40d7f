"""How a figure of a paper is made: the configs it needs, what it reads from their runs, and what it shows.

A figure has a plot for each of the paper's networks. `NAME@BENCHMARK` uses another benchmark and the network conv4
instead, so that one plot is left; for a figure of clustering, `NAME@DATASET` uses another data set. Settings that are
typed override everything else.
"""

import importlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

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

READ: Mapping[type[RunConfig], str] = {  # functions that read the result of a config from the record
    EvaluateConfig: "runs.stages.pipeline:recorded_evaluation",
    TuneConfig: "runs.stages.tuning:recorded_tuning",
    ClusterConfig: "runs.stages.clustering.stage:recorded_clustering",
    FairConfig: "runs.stages.fair.stage:recorded_fair",
}


@dataclass(frozen=True)
class Formula:
    """Takes the place of a run in a figure of formulas. Its config says where the figure is saved."""

    config: RunConfig
    run_ids: tuple[str, ...] = ()


def run_ids(result: Any) -> Sequence[str]:
    """The ids of the runs that a result is from."""
    found: Sequence[str] = result.run_ids if hasattr(result, "run_ids") else [result.run_id]
    return found


def either(numbers: Iterable[int]) -> str:
    """Numbers for a caption: "5", or "3 or 5"."""
    return " or ".join(map(str, sorted(set(numbers)))) or "no"


def plot_names(configs: Sequence[EvaluateConfig | TuneConfig]) -> list[str]:
    """Names of the plots of configs: the network, or the file of its weights, and what else differs between them."""
    parts = [
        (short(one.strategy), short(one.benchmark), weights_name(one) or short(one.backbone), f"seed {one.seed}")
        for one in configs
    ]
    kept = [i for i in range(4) if i == 2 or len({part[i] for part in parts}) > 1]
    return [", ".join(part[i] for i in kept) for part in parts]


@dataclass(frozen=True, kw_only=True)
class Drawing:
    """How one figure is made from the record.

    Attributes:
        schema: class of the configs of its runs; `RunConfig` for formulas, which need no run.
        draw: draws the figure of all results, in order.
        caption: gives its caption.
        check: raises an `InputError` if configs make no figure, before anything is run for them.
        settings: settings of the paper, by key.
        networks: settings of each of the paper's networks, on top of `settings`.
        elsewhere: settings that replace `networks` on other data.
        also: aliases of keys in this figure, such as `tasks` for the key that counts them.
        instead: names of data sets that stand for others in this figure.
        revision: raise it with a change of the drawing, so that it is drawn again.
    """

    schema: type[RunConfig]
    draw: Callable[[Sequence[Any]], "Figure"]
    caption: Callable[[Sequence[Any]], str]
    check: Callable[[Sequence[Any]], object] = len
    settings: Mapping[str, str] = field(default_factory=dict)
    networks: Sequence[Mapping[str, str]] = ({},)
    elsewhere: Sequence[Mapping[str, str]] = ({},)
    also: Mapping[str, str] = field(default_factory=dict)
    instead: Mapping[str, str] = field(default_factory=dict)
    revision: int = 1

    def read(self, config: Any, tracker: "Tracker", say: Say) -> Any:
        """The result of a config from the record; None, with a message, if there is no complete one."""
        if self.schema not in READ:
            return Formula(config)
        module, _, function = READ[self.schema].partition(":")
        return getattr(importlib.import_module(module), function)(config, tracker, say)

    def configs(self, name: str, variant: str, typed: Sequence[str], say: Say) -> list[Any]:
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
        networks = self._on(variant) if variant else self.networks
        wanted: list[Any] = []
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

    def _on(self, name: str) -> list[dict[str, str]]:
        """The settings on other data."""
        if self.schema not in READ:
            raise InputError(f"the figure is of formulas alone and has no data that {name} could replace; omit @{name}")
        if issubclass(self.schema, EvaluateConfig | TuneConfig):
            return [{**each, "benchmark": name, "backbone": SMALL} for each in self.elsewhere]
        return [{**each, "dataset": self.instead.get(name, name)} for each in self.elsewhere]

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
