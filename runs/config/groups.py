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
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from clustering.datasets import DATASETS
from clustering.foundation.errors import InputError, unknown
from clustering.foundation.parameters import mismatch
from clustering.foundation.plugins import Plugins
from clustering.methods import DECIDED, METHODS, configured
from fairness.datasets import DATASETS as FAIR_DATASETS
from fairness.methods import DECIDED as FAIR_DECIDED
from fairness.methods import METHODS as FAIR_METHODS
from fsl.backbones import OWN
from fsl.benchmarks import BENCHMARKS
from fsl.samplers import SAMPLERS
from fsl.strategies import STRATEGIES
from runs.config.overrides import Grid
from runs.config.source import Described, about_function, describe, freeze, read_class
from runs.config.yaml_files import is_yaml, read

SAME = "same"
TIMM = "timm:"  # optional prefix of the name of a timm backbone
OPEN_CLIP = "open_clip:"  # prefix of the name of a network of open_clip


@dataclass(frozen=True)
class Group:
    """One group of options.

    Attributes:
        name: name of the group.
        key: its key on the command line; empty: the name.
        about: short description for the help text.
        plugins: table of the option's classes, if each option has a class of its own.
        own: the options that are functions of this project.
        builds: `package.module:Class`, if all options are settings of one class.
        default: the default option, in the syntax of the command line.
        files: folder of its presets in `configs/`; empty: the name.
        nothing: the option for "none", if there is one; it builds None.
        estimators: whether the classes are estimators as in scikit-learn rather than dataclasses.
        decided: parameters of estimators that the stage sets, and that are not fields.
    """

    name: str
    about: str
    default: str
    plugins: Plugins | None = None
    own: Mapping[str, str] = field(default_factory=dict)
    builds: str = ""
    files: str = ""
    nothing: str = ""
    estimators: bool = False
    decided: tuple[str, ...] = DECIDED
    key: str = ""

    def __post_init__(self) -> None:
        if not self.key:
            object.__setattr__(self, "key", self.name)


CLUSTERER = "the clustering method: one of these, or a clusterer with scikit-learn's interface as module:Class"
GROUPS: dict[str, Group] = {
    group.name: group
    for group in (
        Group("benchmark", "images and their classes", "glyphs", plugins=BENCHMARKS),
        Group("backbone", "the network: one of these, a timm model, module:Class or FILE.py:Class", "conv4", own=OWN),
        Group("training", "training settings on the base classes", "default", builds="fsl.training.settings:Training"),
        Group(
            "strategy",
            "the method that classifies the queries of a task",
            "simpleshot,laplacianshot",
            plugins=STRATEGIES,
        ),
        Group("sampler", "the distribution that tasks are drawn from", "balanced", plugins=SAMPLERS),
        Group(
            "target",
            "the benchmark of the novel classes; same: the benchmark of the training",
            SAME,
            plugins=BENCHMARKS,
            files="benchmark",
            nothing=SAME,
        ),
        Group("dataset", "the points to cluster", "digits", plugins=DATASETS),
        Group("method", CLUSTERER, "slk_mean_shift", plugins=METHODS, estimators=True),
        Group(
            "network",
            "the network that learns the features to cluster",
            "none",
            builds="runs.config.network:DeepNetwork",
            nothing="none",
        ),
        Group(
            "fair_dataset",
            "the points to cluster, and their groups",
            "synthetic_unequal",
            plugins=FAIR_DATASETS,
            key="dataset",
        ),
        Group(
            "fair_method",
            CLUSTERER,
            "fair_kmeans",
            plugins=FAIR_METHODS,
            estimators=True,
            decided=FAIR_DECIDED,
            key="method",
        ),
    )
}


@dataclass(frozen=True)
class Choice:
    """The chosen option of a group, with all its fields.

    Attributes:
        group: name of the group.
        name: name of the option, as typed.
        options: all fields with their values; lists are tuples, and a `Grid` holds the values that tuning tries.
        plugin: name of the plug-in to build; differs from `name` for a preset.
    """

    group: str
    name: str
    options: Mapping[str, Any] = field(default_factory=dict)
    plugin: str = ""

    def __post_init__(self) -> None:
        if not self.plugin:
            object.__setattr__(self, "plugin", self.name)

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
    def needs_images(self) -> bool:
        """Whether the strategy needs the images of its tasks in addition to their features."""
        return bool(getattr(self.kind, "needs_images", False))

    def build(self) -> Any:
        """Build the object: a strategy, a sampler, a data set, a `Training` or an unfitted estimator; for a backbone,
        return its name without the prefix `timm:`.

        Raises:
            InputError: the value of a field is invalid; the message names the field.
        """
        group = GROUPS[self.group]
        if self.name == group.nothing:
            return None
        if group.plugins is None and not group.builds:
            return self.plugin
        built = load(group, self.plugin)
        try:
            return configured(built, self.options) if group.estimators else built(**self.options)
        except InputError as error:
            raise InputError(f"{self.key}={self.name}: {error}") from error


def load(group: Group, plugin: str) -> Any:
    """Import the dataclass or estimator of an option, and torch with it."""
    if group.plugins is not None:
        built = group.plugins.load(plugin)
    else:
        module, _, attribute = group.builds.partition(":")
        built = getattr(importlib.import_module(module), attribute)
    if group.estimators:
        if not (isinstance(built, type) and hasattr(built, "fit") and hasattr(built, "get_params")):
            raise InputError(f"{group.key} {plugin!r} must be an estimator with fit and get_params{_remedy(built)}")
    elif not (isinstance(built, type) and dataclasses.is_dataclass(built)):
        raise InputError(f"{group.key} {plugin!r} must be a dataclass, because its fields are its config")
    return built


def _remedy(built: Any) -> str:
    """Return how to use an objective that was given where an estimator is expected."""
    if not (hasattr(built, "targets") and hasattr(built, "loss")):
        return ""
    return f"; for an objective, write method=softmax objective={built.__module__}:{built.__qualname__}"


@cache
def described(group: str, plugin: str) -> Described:
    """Return the fields of a plug-in; for a class of this project without importing it."""
    kind = GROUPS[group]
    place = kind.builds or (kind.plugins.locate(plugin) if kind.plugins else plugin)
    found = read_class(place, kind.estimators, kind.decided if kind.estimators else ())
    return found or describe(load(kind, plugin), kind.estimators, kind.decided)


@cache
def folder() -> pathlib.Path:
    """Return the folder `configs/`: beside the packages in a checkout, inside `runs/` in an installation."""
    root = pathlib.Path(__file__).resolve().parents[1]
    return root / "configs" if (root / "configs").is_dir() else root.parent / "configs"


def options_folder(group: str) -> pathlib.Path:
    """Return the folder with the presets of a group (or the experiments)."""
    return folder() / ((GROUPS[group].files if group in GROUPS else "") or group)


def names(group: str) -> list[str]:
    """Return the names of a group's options (plug-ins and presets), or of the files of another folder of `configs/`."""
    path = options_folder(group)
    files = {file.relative_to(path).with_suffix("").as_posix() for file in path.rglob("*.yaml")}
    if group not in GROUPS:
        return sorted(files)
    kind = GROUPS[group]
    return [
        *([kind.nothing] if kind.nothing else []),
        *sorted(files.union(kind.plugins.names() if kind.plugins else kind.own)),
    ]


def default(group: str, benchmark: str = "", backbone: str = "") -> str:
    """Return the default option of a group.

    The default training depends on the benchmark (or its class), and on the backbone if the papers train it
    differently: `mini_wrn28_10`, else `mini`, else `default`.
    """
    if group == "training":
        known = names(group)
        benchmarks = (benchmark, option("benchmark", benchmark).plugin)
        for name in (*(f"{name}_{backbone}" for name in benchmarks), *benchmarks):
            if name in known:
                return name
    return GROUPS[group].default


def option(group: str, name: str) -> Choice:
    """Return the option of that name: a plug-in with the defaults of its class, or a preset.

    Raises:
        InputError: the name is unknown (the message suggests the closest), or its file cannot be read.
    """
    return _preset(group, name, pathlib.Path(name)) if is_yaml(name) else _option(group, name)


@cache
def _option(group: str, name: str) -> Choice:
    kind = GROUPS[group]
    if len(name) > 200:
        raise InputError(f"{kind.key}={name[:40]}...: the name is too long")
    if name and name == kind.nothing:
        return Choice(group, name)
    path = options_folder(group) / f"{name}.yaml"
    if re.fullmatch(r"[\w.-]+", name) and path.is_file():
        return _preset(group, name, path)
    if kind.plugins is not None:
        if ":" not in name and name not in kind.plugins.table and name not in kind.plugins.names():
            raise kind.plugins.unknown(name, names(group), kind.key)
        return Choice(group, name, composed(group, name, ()))
    if kind.name == "network" and ":" in name:
        raise InputError(
            f"network={name}: give your own network as an architecture: network=small_cnn architecture={name} trains "
            "it with the settings of small_cnn"
        )
    if kind.builds:
        raise unknown(kind.key, name, [*names(group), "FILE.yaml"])
    return Choice(group, name, plugin=name.removeprefix(TIMM))


def _preset(group: str, name: str, path: pathlib.Path) -> Choice:
    """Return the option of a file, which lists what differs from the class or from another option."""
    kind, content = GROUPS[group], read(path)
    base, plugin = content.pop("base", None), content.pop("name", None)
    if kind.plugins is None and not kind.builds:
        raise InputError(f"{path}: {kind.key} has no fields, so it takes no files; give a name")
    if base is None and plugin is None and is_yaml(name) and kind.plugins:
        raise InputError(f"{path}: say which option it changes, as base: {kind.default.partition(',')[0]}")
    below = option(group, str(base)) if base is not None else None
    plugin = below.plugin if below and kind.plugins else str(plugin or path.stem)
    hints = described(group, plugin).hints
    changes = {} if below is None else dict(below.options)
    for field_name, value in content.items():
        if field_name not in hints:
            raise InputError(f"{path}: {unknown('field', field_name, hints)}")
        if problem := mismatch(freeze(value), hints[field_name]):
            raise InputError(f"{path}: {field_name} must be {problem}, not {value!r}")
        changes[field_name] = freeze(value)
    return Choice(group, name, composed(group, plugin, tuple(changes.items())), plugin)


@cache
def composed(group: str, plugin: str, changes: tuple[tuple[str, Any], ...]) -> dict[str, Any]:
    """Return the options of a plug-in: OmegaConf merges the changes into the schema of its class.

    Raises:
        InputError: the type of a value is wrong.
    """
    schema = described(group, plugin).schema
    literal = {name: value for name, value in changes if "$" in str(value)}  # text of the user, no reference to a key
    plain = {name: value for name, value in changes if name not in literal}
    try:
        merged = OmegaConf.to_container(OmegaConf.merge(OmegaConf.structured(schema), plain))
    except OmegaConfBaseException as error:
        raise InputError(f"{GROUPS[group].key}={plugin}: {str(error).splitlines()[0]}") from error
    return {str(name): freeze(value) for name, value in {**merged, **literal}.items()}  # type: ignore[dict-item]


def experiment(name: str) -> dict[str, Any]:
    """Return the keys and values of `configs/experiment/NAME.yaml`."""
    return read(options_folder("experiment") / f"{name}.yaml")


def comments(group: str, name: str) -> dict[str, str]:
    """Return what the docstring of an option's class says about each field."""
    choice = option(group, name)
    return dict(described(group, choice.plugin).fields) if choice.options else {}


def comment(group: str, name: str) -> str:
    """Return the comment at the top of a preset's file, else the first sentence of the class's docstring."""
    path = options_folder(group) / f"{name}.yaml"
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    head = itertools.takewhile(lambda line: line.startswith("#"), lines)
    if text := " ".join(line.lstrip("# ") for line in head):
        return text
    kind = GROUPS.get(group)
    if kind and name in kind.own:
        return about_function(f"{kind.own[name]}:{name}")
    return described(group, name).about if kind and kind.plugins and name in kind.plugins.table else ""


def needs(strategy: Any) -> str:
    """What a strategy uses besides features: its attribute `needs`, and class names; empty if nothing."""
    names = {"none": "", "optional": "class names (optional)", "required": "class names"}
    return ", ".join(filter(None, (getattr(strategy, "needs", ""), names[getattr(strategy, "text", "none")])))
