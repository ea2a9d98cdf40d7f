"""Groups of the config: what `benchmark=`, `backbone=`, `strategy=`, `dataset=`, `method=` and the others may name.

Two verbs may offer different options under one key: `dataset=` of `transduce cluster` is the group `dataset`, that of
`transduce fair` the group `fair_dataset`.

An option is a YAML file in `configs/<group>/` that lists every field of the dataclass it stands for (of a method
every parameter of the estimator), so that names, keys and types are checked without importing torch. A file with a line
`base: OTHER` lists only the fields that differ from the option OTHER. A line `name: CLASS` names the class in the table
of the group, where the file is not called like it. A plug-in without a file gets its fields from its class.
"""

import copy
import dataclasses
import importlib
import itertools
import pathlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import Any

from clustering.datasets import DATASETS
from clustering.files.regular import open_regular
from clustering.foundation.errors import InputError, unknown
from clustering.foundation.plugins import Plugins
from clustering.methods import DECIDED, METHODS, configured, parameters
from fairness.datasets import DATASETS as FAIR_DATASETS
from fairness.methods import DECIDED as FAIR_DECIDED
from fairness.methods import METHODS as FAIR_METHODS
from fsl.backbones import OWN
from fsl.benchmarks import BENCHMARKS
from fsl.samplers import SAMPLERS
from fsl.strategies import STRATEGIES
from runs.config.overrides import Grid

REQUIRED = "???"  # stands for a value that the user has to give


@dataclass(frozen=True)
class Group:
    """One group: where its options come from.

    Attributes:
        name: of the folder of its options in `configs/`, and the key on the command line.
        key: the key, where that is another one.
        about: what is chosen, in a few words.
        plugins: the table of classes, where an option stands for a class of its own.
        own: names of what this project has, where they are those of functions.
        builds: `package.module:Class`, where all options are settings of one class.
        default: what is chosen when nothing is said, as on the command line.
        files: the folder of its options in `configs/`, where it is not named like the group.
        nothing: the option that stands for no choice, if there is one; it builds None.
        estimators: whether the classes are scikit-learn's kind of estimators, and no dataclasses.
        decided: parameters of estimators that whoever runs them decides, and that cannot be set as fields.
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


SAME = "same"
TIMM = "timm:"  # before the name of a backbone of timm; may be left out
GROUPS: dict[str, Group] = {
    group.name: group
    for group in (
        Group("benchmark", "the images and their classes", "glyphs", plugins=BENCHMARKS),
        Group("backbone", "the network: one of these, or any model of timm by name", "conv4", own=OWN),
        Group("training", "how it is trained on the base classes", "default", builds="fsl.training.base:Training"),
        Group(
            "strategy",
            "how the queries of a task are labelled",
            "simpleshot,laplacianshot",
            plugins=STRATEGIES,
        ),
        Group("sampler", "how tasks are drawn from the classes", "balanced", plugins=SAMPLERS),
        Group(
            "target",
            "the benchmark whose novel classes the tasks are made of, where it is another one",
            SAME,
            plugins=BENCHMARKS,
            files="benchmark",
            nothing=SAME,
        ),
        Group("dataset", "the points", "digits", plugins=DATASETS),
        Group(
            "method",
            "how they are clustered: one of these, or any clusterer of scikit-learn's kind as module:Class",
            "slk_mean_shift",
            plugins=METHODS,
            estimators=True,
        ),
        Group(
            "network",
            "what learns the features by which points are clustered",
            "none",
            builds="runs.config.network:DeepNetwork",
            nothing="none",
        ),
        Group(
            "fair_dataset",
            "the points, and the groups that they belong to",
            "synthetic_unequal",
            plugins=FAIR_DATASETS,
            key="dataset",
        ),
        Group(
            "fair_method",
            "how they are clustered: one of these, or any clusterer of scikit-learn's kind as module:Class",
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
        options: every field with its value; lists are tuples, and a `Grid` is what tuning chooses from.
        plugin: what is built, where it is called otherwise than the option (a preset); else equal to `name`.
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
        """What the group is called on the command line."""
        return GROUPS[self.group].key

    @property
    def grids(self) -> dict[str, Grid]:
        """The fields whose value tuning chooses."""
        return {name: value for name, value in self.options.items() if isinstance(value, Grid)}

    def at(self, values: Mapping[str, Any]) -> "Choice":
        """The same option with these values of some fields."""
        return dataclasses.replace(self, options={**self.options, **values})

    def points(self) -> Iterator["Choice"]:
        """The option with every combination of the values in its grids; itself where it has none."""
        for values in itertools.product(*self.grids.values()):
            yield self.at(dict(zip(self.grids, values, strict=True)))

    @property
    def kind(self) -> Any:
        """The class of what is built; not for backbones."""
        return load(GROUPS[self.group], self.plugin)

    @property
    def needs_images(self) -> bool:
        """Whether what is built, a strategy, takes the images of its tasks and not their features alone."""
        return bool(getattr(self.kind, "needs_images", False))

    def build(self) -> Any:
        """The object itself: a strategy, a sampler, a data set, a `Training`, an estimator that is yet to be fitted;
        for a backbone the name that timm knows.

        Raises:
            InputError: names the field whose value cannot be.
        """
        group = GROUPS[self.group]
        if self.name == group.nothing:
            return None
        if group.plugins is None and not group.builds:
            return self.plugin
        built = load(group, self.plugin)
        surplus = self.options.keys() - fields_of(group, built).keys()
        if surplus:
            where = f"configs/{self.group}/{self.name}.yaml"
            raise InputError(f"{where}: {self.plugin} has no field {', '.join(sorted(surplus))}; delete it there")
        try:
            return configured(built, self.options) if group.estimators else built(**self.options)
        except InputError as error:
            raise InputError(f"{self.key}={self.name}: {error}") from error


def load(group: Group, plugin: str) -> Any:
    """The dataclass, or estimator, that an option stands for. Imports it, and torch with it."""
    if group.plugins is not None:
        built = group.plugins.load(plugin)
    else:
        module, _, attribute = group.builds.partition(":")
        built = getattr(importlib.import_module(module), attribute)
    if group.estimators:
        if not (isinstance(built, type) and hasattr(built, "fit") and hasattr(built, "get_params")):
            raise InputError(f"{group.key} {plugin!r} must name an estimator, with fit and get_params{_remedy(built)}")
    elif not (isinstance(built, type) and dataclasses.is_dataclass(built)):
        raise InputError(f"{group.key} {plugin!r} must name a dataclass, since its fields are its config")
    return built


def _remedy(built: Any) -> str:
    """How what is no estimator is given instead."""
    if not (hasattr(built, "targets") and hasattr(built, "loss")):
        return ""
    return f"; an objective is given as method=softmax objective={built.__module__}:{built.__qualname__}"


@cache
def folder() -> pathlib.Path:
    """The folder `configs/`: beside the packages in a checkout, inside `runs/` once installed."""
    here = pathlib.Path(__file__).resolve().parents[1]
    return here / "configs" if (here / "configs").is_dir() else here.parent / "configs"


def options_folder(group: str) -> pathlib.Path:
    """The folder of the files of a group's options (or of the experiments)."""
    return folder() / ((GROUPS[group].files if group in GROUPS else "") or group)


def names(group: str) -> list[str]:
    """Names of a group's options (or of the experiments): its files, then the plug-ins that have no file."""
    files = sorted(path.stem for path in options_folder(group).glob("*.yaml"))
    if group not in GROUPS:
        return files
    plugins, nothing = GROUPS[group].plugins, GROUPS[group].nothing
    others = [name for name in (plugins.names() if plugins else GROUPS[group].own) if name not in files]
    return [*([nothing] if nothing else []), *files, *others]


def default(group: str, benchmark: str = "", backbone: str = "") -> str:
    """What a group means when nothing is said. Training follows the benchmark, by its or its class's name, and where
    the papers train a network otherwise there, the network: `mini_wrn28_10`, else `mini`, else `default`."""
    if group == "training":
        known = names(group)
        benchmarks = (benchmark, option("benchmark", benchmark).plugin)
        for name in (*(f"{name}_{backbone}" for name in benchmarks), *benchmarks):
            if name in known:
                return name
    return GROUPS[group].default


def option(group: str, name: str) -> Choice:
    """The option of that name with the values of its file.

    Raises:
        InputError: for an unknown name, with the nearest right one, or a file that cannot be read.
    """
    return _option(group, name)


@cache
def _option(group: str, name: str) -> Choice:
    kind = GROUPS[group]
    if len(name) > 200:
        raise InputError(f"{kind.key}={name[:40]}...: no name is that long")
    if name == kind.nothing:
        return Choice(group, name)
    path = options_folder(group) / f"{name}.yaml"
    if re.fullmatch(r"[\w.-]+", name) and path.is_file():
        content = {key: freeze(value) for key, value in read(path).items()}
        if "base" not in content:
            plugin = str(content.pop("name", name))
            return Choice(group, name, content, plugin)
        base = _option(group, content.pop("base"))
        return Choice(group, name, {**base.options, **content}, base.plugin if kind.plugins else name)
    if kind.plugins is not None:
        if ":" not in name and name not in names(group):
            raise kind.plugins.unknown(name, names(group), kind.key)
        return Choice(group, name, fields_of(kind, load(kind, name)))
    if kind.name == "network" and ":" in name:
        raise InputError(
            f"network={name}: a network of your own is an architecture: network=small_cnn "
            f"architecture={name} trains it with the settings of small_cnn"
        )
    if kind.builds:
        raise unknown(kind.key, name, names(group))
    return Choice(group, name, plugin=name.removeprefix(TIMM))


def fields_of(group: Group, built: Any) -> dict[str, Any]:
    """What may be set of a class, with the defaults."""
    if group.estimators:
        return {name: freeze(value) for name, value in parameters(built, group.decided).items()}
    found = {}
    for item in dataclasses.fields(built):
        if item.default is not dataclasses.MISSING:
            found[item.name] = freeze(item.default)
        elif item.default_factory is not dataclasses.MISSING:
            found[item.name] = freeze(item.default_factory())
        else:
            found[item.name] = REQUIRED
    return found


def experiment(name: str) -> dict[str, Any]:
    """The lines of `configs/experiment/NAME.yaml`."""
    return read(options_folder("experiment") / f"{name}.yaml")


def read(path: pathlib.Path) -> dict[str, Any]:
    """A YAML file of keys and values.

    Raises:
        InputError: names the file and the line where it is no such thing.
    """
    try:
        state = path.stat()
        return copy.deepcopy(_content(path, state.st_mtime_ns, state.st_size))
    except FileNotFoundError as error:
        raise InputError(f"{path}: no such file") from error
    except OSError as error:
        raise InputError(f"{path}: not a readable YAML file: {error}") from error


@lru_cache(maxsize=256)
def _content(path: pathlib.Path, changed: int, size: int) -> dict[str, Any]:
    """Of a file that has not changed the content is known."""
    from runs.config.yaml_files import parse_yaml

    try:
        with open_regular(path) as file:
            content = parse_yaml(file.read().decode("utf-8"))
    except ValueError as error:
        raise InputError(f"{path}: not a readable YAML file: {error}") from error
    if content is None:
        return {}  # comments alone
    if not isinstance(content, dict) or not all(isinstance(key, str) for key in content):
        raise InputError(f"{path}: must hold lines of the form `key: value`")
    return {str(key): _literal(value, f"{path}: {key}") for key, value in content.items()}


def _literal(value: Any, where: str) -> Any:
    """A value as it is written: nothing in a file is filled in, neither from the environment nor from other keys. What
    `as_yaml` writes for ${ becomes that again.

    Raises:
        InputError: a ${...} that asks to be filled in, or a NUL character; names the file and the key.
    """
    if isinstance(value, dict):
        return {key: _literal(item, f"{where}.{key}") for key, item in value.items()}
    if isinstance(value, list):
        return [_literal(item, where) for item in value]
    if isinstance(value, str) and "\0" in value:
        raise InputError(f"{where}: {value!r} has a NUL character, which no name or path has; leave it out")
    if isinstance(value, str) and re.search(r"(?<!\\)\$\{", value):
        raise InputError(
            f"{where}: {value!r}: ${{...}} is not filled in, lest a secret of the environment end up in the record; "
            r"write the value itself, or \${ where these characters are meant"
        )
    return value.replace(r"\${", "${") if isinstance(value, str) else value


def comments(group: str, name: str) -> dict[str, str]:
    """The comment beside each key in an option's file, or in that of its base; empty where there is no file."""
    path = options_folder(group) / f"{name}.yaml"
    if not path.is_file():
        return {}
    base = read(path).get("base")
    inherited = comments(group, base) if base else {}
    lines = re.finditer(r"^(\w+):[^#\n]*#[ ]*(.+)$", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return inherited | {match[1]: match[2].strip() for match in lines}


def comment(group: str, name: str) -> str:
    """The comment at the head of an option's file."""
    path = options_folder(group) / f"{name}.yaml"
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    head: list[str] = []
    for line in lines:
        if not line.startswith("#"):
            break
        head.append(line.lstrip("# "))
    return " ".join(head)


def freeze(value: Any) -> Any:
    """Lists as tuples, as the frozen dataclasses hold them."""
    return tuple(freeze(item) for item in value) if isinstance(value, (list, tuple)) else value
