"""The figures of the papers, by name, and figures of no paper: which configs they need, and how they are drawn.

`papers.yaml` has the function that draws each, its caption and its settings. A figure has a plot for each of the
paper's networks. `NAME@BENCHMARK` uses another benchmark and the network conv4 instead, so that one plot is left; for a
figure of clustering, `NAME@DATASET` uses another data set. Settings that are typed override everything else.
"""

import functools
import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from clustering.foundation.errors import InputError, unknown
from runs.config import groups
from runs.config.base import PLACES, group_names, group_of
from runs.config.configs import SCHEMAS, RunConfig, parse
from runs.storage.locks import Say
from runs.tables.paper import SMALL, as_typed
from runs.tables.published import figures, read_yaml

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from runs.track import Tracker

OWN: Mapping[str, str] = {  # figures of no paper, with what they show
    "vlm/regimes": "Accuracy of strategies with class names, by the number of classes present",
}


@dataclass(frozen=True, kw_only=True)
class Drawing:
    """How one figure is made from the record."""

    # Gives the figure of all results, in order, and the words of its caption by name.
    draw: "Callable[[Sequence[Any]], tuple[Figure, Mapping[str, str]]]"
    caption: str  # with {names} of such words
    of: str = ""  # the verb whose results are drawn; empty for formulas, which need no run
    # Raises an `InputError` if configs make no figure, before anything is run for them.
    check: Callable[[Sequence[Any]], object] = len
    settings: Mapping[str, str] = field(default_factory=dict)  # of the paper, by key
    networks: Sequence[Mapping[str, str]] = ({},)  # settings of each of the paper's networks, on top of `settings`
    elsewhere: Sequence[Mapping[str, str]] = ({},)  # settings that replace `networks` on other data
    revision: int = 1  # raise it with a change of the drawing, so that it is drawn again

    def read(self, config: Any, tracker: "Tracker", say: Say) -> Any:
        """The result of a config from the record; None, with a message, if there is no complete one."""
        if not self.of:
            return SimpleNamespace(config=config, run_ids=())  # the config says where the figure is saved
        from runs.jobs import recorded

        return recorded(config, tracker, say)

    def drawn(self, results: Sequence[Any]) -> "tuple[Figure, str]":
        """The figure of results, and its caption."""
        figure, words = self.draw(results)
        return figure, self.caption.format(**words)

    def configs(self, variant: str, typed: Sequence[str], say: Say) -> list[Any]:
        """The configs that it needs, each once, with the settings that were typed.

        Args:
            variant: data that replace the paper's; empty for the paper's own.
            typed: settings as `key=value`.
            say: called with a message for each network that is left out.

        Raises:
            InputError: no network gives a config, or the configs make no figure.
        """
        schema, on = SCHEMAS.get(self.of, RunConfig), {}
        if variant and not self.of:
            raise InputError(f"the figure is of formulas alone and has no data that {variant} could replace; omit it")
        if variant:
            images = self.of in ("evaluate", "tune")
            on = {"benchmark": variant, "backbone": SMALL} if images else {"dataset": variant}
        networks = [{**self.settings, **each, **on} for each in (self.elsewhere if variant else self.networks)]
        has_files = [_has_files(schema, network) for network in networks]
        wanted: list[Any] = []
        problems: dict[str, InputError] = {}
        for network, takes_folder in zip(networks, has_files, strict=True):
            # In a figure of data sets with and without files, a folder is that of those with files.
            given = [one for one in typed if one.partition("=")[0].strip() not in PLACES or takes_folder]
            try:
                configs = parse(schema, given if any(has_files) else typed, network)
            except InputError as error:
                problems.setdefault(str(error), error)
            else:
                wanted += [config for config in configs if config not in wanted]
        if not wanted:
            raise next(iter(problems.values()))
        self.check(wanted)
        for problem in problems:
            say(f"left out: {problem}")
        return wanted


def _has_files(schema: type[RunConfig], network: Mapping[str, str]) -> bool:
    """Whether the data of a network may be files: its data set has a folder, or it names none."""
    name = network.get("dataset")
    if name is None or "dataset" not in group_names(schema):
        return True
    return not groups.option(group_of(schema, "dataset"), name).options.keys().isdisjoint(PLACES)


@functools.cache
def entries() -> dict[str, dict[str, Any]]:
    """The entries of `papers.yaml`, by name of the figure."""
    known = read_yaml(Path(__file__).with_name("papers.yaml"), "runs/figures/papers.yaml")
    return {name: entry for name, entry in known.items() if name != "shared"}


def listed() -> list[dict[str, str]]:
    """Name of every figure, what it shows, and whether it can be drawn: "yes", or why not."""
    rows = []
    for figure in figures():
        why_not = "is not drawn here" if figure.data_like else "is a sketch and shows no data"
        able = "yes" if figure.name in entries() else why_not
        rows.append({"name": figure.name, "about": figure.shows, "can be drawn": able})
    return rows + [{"name": name, "about": about, "can be drawn": "yes"} for name, about in OWN.items()]


def drawing(name: str) -> Drawing:
    """The `Drawing` of a figure.

    Args:
        name: such as "thesis/4.1", without a benchmark.

    Raises:
        InputError: no figure has that name, or it cannot be drawn here; says why.
    """
    known = {row["name"]: row for row in listed()}
    if name not in known:
        raise unknown("figure", name, known)
    if name not in entries():
        raise InputError(f"figure {name} cannot be drawn ({known[name]['about']}): it {known[name]['can be drawn']}")
    given = {**entries()[name]}
    module, _, function = given.pop("draw").partition(":")
    drawn_by = importlib.import_module(f"runs.figures.{module}")
    draw = functools.partial(getattr(drawn_by, function), **given.pop("with", {}))
    if "check" in given:
        given["check"] = getattr(drawn_by, given["check"])
    if "experiment" in given:
        settings = {**groups.experiment(given.pop("experiment"))}
        given |= {"networks": settings.pop("each", [{}]), "settings": settings}
    given["settings"] = as_typed(given.get("settings", {}))
    for key in given.keys() & {"networks", "elsewhere"}:
        sets = given[key]
        shared, each = (sets["all"], sets["each"]) if isinstance(sets, dict) else ({}, sets)
        given[key] = [as_typed(shared | settings) for settings in each]
    return Drawing(draw=draw, **given)
