"""Groups of the config: the options of `benchmark=`, `backbone=`, `strategy=`, `dataset=`, `method=` and the others.

The class of a plug-in is the schema of its options and the source of their defaults. A preset, a file in
`configs/<group>/` or a YAML file of your own, lists only what differs: from the class `name:` (that of the file's name
if there is no such line), or from the option `base:`.
Two verbs may have different options for one key: `dataset=` of `transduce cluster` is the group `dataset`, `dataset=`
of `transduce fair` is the group `fair_dataset`.
"""

import dataclasses
import importlib
import itertools
import pathlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from clustering.datasets import DATASETS
from clustering.foundation.errors import InputError, unknown
from clustering.foundation.plugins import Plugins
from clustering.methods import DECIDED, METHODS, configured
from fairness.datasets import DATASETS as FAIR_DATASETS
from fairness.methods import DECIDED as FAIR_DECIDED
from fairness.methods import METHODS as FAIR_METHODS
from fsl.backbones import OWN
from fsl.backbones.names import TIMM
from fsl.benchmarks import BENCHMARKS
from fsl.samplers import SAMPLERS
from fsl.strategies import STRATEGIES
from runs.config.overrides import Grid, convert, of_file
from runs.config.source import Described, about_function, describe, read_class
from runs.config.yaml_files import is_yaml, read

SAME = "same"


@dataclass(frozen=True)
class Group:
    """One group of options."""

    name: str
    default: str  # the default option, in the syntax of the command line
    about: str  # for the help text
    plugins: Plugins | None = None  # table of the options' classes, if each has one of its own
    builds: str = ""  # package.module:Class, if all options are settings of one class
    nothing: str = ""  # the option for "none", which builds None
    decided: tuple[str, ...] | None = None  # parameters of estimators that the stage sets; None: dataclasses
    files: str = ""  # folder of its presets in configs/; empty: the name

    @property
    def key(self) -> str:
        """Its key on the command line."""
        return self.name.removeprefix("fair_")


TRAINING, DEEP = "fsl.training.settings:Training", "runs.stages.clustering.deep_network:DeepNetwork"
BACKBONE = "the network: one of these, a timm model, module:Class or FILE.py:Class"
TARGET = "the benchmark of the novel classes; same: the benchmark of the training"
CLUSTERER = "the clustering method: one of these, or a clusterer with scikit-learn's interface as module:Class"
DEFINED = (
    Group("benchmark", "glyphs", "images and their classes", BENCHMARKS),
    Group("backbone", "conv4", BACKBONE),
    Group("training", "default", "training settings on the base classes", builds=TRAINING),
    Group("strategy", "simpleshot,laplacianshot", "the method that classifies the queries of a task", STRATEGIES),
    Group("sampler", "balanced", "the distribution that tasks are drawn from", SAMPLERS),
    Group("target", SAME, TARGET, BENCHMARKS, nothing=SAME, files="benchmark"),
    Group("dataset", "digits", "the points to cluster", DATASETS),
    Group("method", "slk_mean_shift", CLUSTERER, METHODS, decided=DECIDED),
    Group("network", "none", "the network that learns the features to cluster", builds=DEEP, nothing="none"),
    Group("fair_dataset", "synthetic_unequal", "the points to cluster, and their groups", FAIR_DATASETS),
    Group("fair_method", "fair_kmeans", CLUSTERER, FAIR_METHODS, decided=FAIR_DECIDED),
)
GROUPS: dict[str, Group] = {group.name: group for group in DEFINED}


@dataclass(frozen=True)
class Choice:
    """The chosen option of a group, with all its fields."""

    group: str  # name of the group
    name: str  # name of the option, as typed
    options: Mapping[str, Any] = field(default_factory=dict)  # lists are tuples; a `Grid` has the values to be tried
    plugin: str = ""  # name of the plug-in to build; differs from `name` for a preset

    def __post_init__(self) -> None:
        object.__setattr__(self, "plugin", self.plugin or self.name)

    @property
    def key(self) -> str:
        """The key of the group on the command line."""
        return GROUPS[self.group].key

    @property
    def grids(self) -> dict[str, Grid]:
        """The fields whose values tuning chooses, with the values to try."""
        return {name: value for name, value in self.options.items() if isinstance(value, Grid)}

    def at(self, values: Mapping[str, Any]) -> "Choice":
        """Return a copy with changed values of some fields."""
        return dataclasses.replace(self, options={**self.options, **values})

    def points(self) -> Iterator["Choice"]:
        """Yield the option with each combination of the values in its grids; the option itself if it has no grids."""
        for values in itertools.product(*self.grids.values()):
            yield self.at(dict(zip(self.grids, values, strict=True)))

    @property
    def kind(self) -> Any:
        """The class that `build` instantiates; not defined for backbones."""
        return load(GROUPS[self.group], self.plugin)

    @property
    def outline(self) -> type:
        """The class without its methods if it is of this project, whose import takes seconds; else the class."""
        return outline(self.group, self.plugin)

    def build(self) -> Any:
        """Build the object: a strategy, a sampler, a data set, a `Training` or an unfitted estimator; for a backbone,
        return its name without the prefix `timm:`.

        Raises:
            InputError: the value of a field is invalid; the message names the field.
        """
        group = GROUPS[self.group]
        if self.name == group.nothing or group.name == "backbone":
            return None if group.nothing else self.plugin
        try:
            return self.kind(**self.options) if group.decided is None else configured(self.kind, self.options)
        except InputError as error:
            raise InputError(f"{self.key}={self.name}: {error}") from error


def load(group: Group, plugin: str) -> Any:
    """Import the dataclass or estimator of an option, and torch with it."""
    module, _, name = group.builds.partition(":")
    built = group.plugins.load(plugin) if group.plugins else getattr(importlib.import_module(module), name)
    if group.decided is None and not (isinstance(built, type) and dataclasses.is_dataclass(built)):
        raise InputError(f"{group.key} {plugin!r} must be a dataclass, because its fields are its config")
    if group.decided is not None and not (isinstance(built, type) and {"fit", "get_params"}.issubset(dir(built))):
        remedy = f"; an objective is method=softmax objective={plugin}" if hasattr(built, "loss") else ""
        raise InputError(f"{group.key} {plugin!r} must be an estimator with fit and get_params{remedy}")
    return built


def outline(group: str, plugin: str) -> type:
    """Return the class of a plug-in; one of this project without its methods, and without importing it."""
    kind = GROUPS[group]
    found: type = read_class(kind.plugins.locate(plugin) if kind.plugins else kind.builds) or load(kind, plugin)
    return found


@cache
def described(group: str, plugin: str) -> Described:
    """Return the fields of a plug-in."""
    return describe(outline(group, plugin), GROUPS[group].decided)


@cache
def folder() -> pathlib.Path:
    """Return the folder `configs/`: beside the packages in a checkout, inside `runs/` in an installation."""
    root = pathlib.Path(__file__).resolve().parents[1]
    return root / "configs" if (root / "configs").is_dir() else root.parent / "configs"


def file(group: str, name: str) -> pathlib.Path:
    """Return the path of a file of `configs/`, such as a preset or an experiment, or the path of a file of one's own.

    Raises:
        InputError: the name is unknown; the message suggests the closest.
    """
    if is_yaml(name):
        return pathlib.Path(name)
    if name not in names(group):
        raise unknown(group, name, names(group))
    return options_folder(group) / f"{name}.yaml"


def options_folder(group: str) -> pathlib.Path:
    """Return the folder with the presets of a group (or the experiments)."""
    return folder() / ((GROUPS[group].files if group in GROUPS else "") or group)


def names(group: str) -> list[str]:
    """Return the names of a group's options (plug-ins and presets), or of the files of another folder of `configs/`."""
    path, kind = options_folder(group), GROUPS.get(group)
    found = {file.relative_to(path).with_suffix("").as_posix() for file in path.rglob("*.yaml")}
    found |= set(kind.plugins.names() if kind and kind.plugins else OWN if group == "backbone" else ())
    return [*([kind.nothing] if kind and kind.nothing else []), *sorted(found)]


def default(group: str, benchmark: str = "", backbone: str = "") -> str:
    """Return the default option of a group.

    The default training depends on the benchmark (or its class), and on the backbone if the papers train it
    differently: `mini_wrn28_10`, else `mini`, else `default`.
    """
    if group != "training":
        return GROUPS[group].default
    benchmarks = (benchmark, option("benchmark", benchmark).plugin)
    wanted = [*(f"{name}_{backbone}" for name in benchmarks), *benchmarks, "default"]
    return next(name for name in wanted if (options_folder(group) / f"{name}.yaml").is_file())


def option(group: str, name: str) -> Choice:
    """Return the option of that name: a plug-in with the defaults of its class, or a preset.

    Raises:
        InputError: the name is unknown (the message suggests the closest), or its file cannot be read.
    """
    return _file_option(group, name) if is_yaml(name) else _option(group, name)


@cache
def _option(group: str, name: str) -> Choice:
    kind = GROUPS[group]
    if kind.nothing and name == kind.nothing:
        return Choice(group, name)
    if group == "backbone" and 0 < len(name) < 200:
        return Choice(group, name, plugin=name.removeprefix(TIMM))
    if ":" in name and group == "network":
        raise InputError(f"network={name}: your own network is an architecture: network=small_cnn architecture={name}")
    own = ":" in name and kind.plugins
    if not own and name not in names(group):
        raise kind.plugins.unknown(name, names(group), kind.key) if kind.plugins else unknown(group, name, names(group))
    if own or not (options_folder(group) / f"{name}.yaml").is_file():
        return Choice(group, name, described(group, name).defaults)
    return _file_option(group, name)


def _file_option(group: str, name: str) -> Choice:
    """Return the option of a file, which lists what differs from the class or from another option."""
    kind, path = GROUPS[group], file(group, name)
    content = read(path)
    base, plugin = content.pop("base", None), str(content.pop("name", path.stem))
    if group == "backbone":
        raise InputError(f"{path}: a backbone has no fields, so it takes no files; give a name")
    below = option(group, str(base)) if base is not None else Choice(group, plugin, described(group, plugin).defaults)
    plugin = below.plugin if kind.plugins else plugin
    hints = described(group, plugin).hints
    if wrong := next((name for name in content if name not in hints), None):
        raise InputError(f"{path}: {unknown('field', wrong, hints)}")
    values = {key: convert(f"{path}: {key}", of_file(value), hints[key]) for key, value in content.items()}
    return Choice(group, name, {**below.options, **values}, plugin)


def experiment(name: str) -> dict[str, Any]:
    """Return the keys and values of an experiment, by its name in `configs/experiment/` or the path of a YAML file."""
    return read(file("experiment", name))


def comments(group: str, name: str) -> Mapping[str, str]:
    """Return what the docstring of an option's class says about each field."""
    choice = option(group, name)
    return described(group, choice.plugin).fields if choice.options else {}


def comment(group: str, name: str) -> str:
    """Return the comment at the top of a preset's file, else the first sentence of the class's docstring."""
    path, kind = options_folder(group) / f"{name}.yaml", GROUPS.get(group)
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    head = itertools.takewhile(lambda line: line.startswith("#"), lines)
    if text := " ".join(line.lstrip("# ") for line in head):
        return text
    if group == "backbone" and name in OWN:
        return about_function(OWN[name])
    return described(group, name).about if kind and kind.plugins and name in kind.plugins.table else ""


def needs(strategy: Any) -> str:
    """What a strategy uses besides features: its attribute `needs`, and class names; empty if nothing."""
    names = {"none": "", "optional": "class names (optional)", "required": "class names"}
    return ", ".join(filter(None, (getattr(strategy, "needs", ""), names[getattr(strategy, "text", "none")])))
