"""Groups of the config: the options of `benchmark=`, `backbone=`, `strategy=`, `dataset=`, `method=` and the others.

Two verbs may have different options for one key: `dataset=` of `transduce cluster` is the group `dataset`, `dataset=`
of `transduce fair` is the group `fair_dataset`.

An option is a YAML file in `configs/<group>/` that lists all fields of its dataclass (for a method, all parameters of
the estimator), so that names, keys and types are checked without importing torch. A file with a line `base: OTHER`
lists only the fields that differ from the option OTHER. A line `name: CLASS` names the class in the table of the group
if it differs from the file's name. A plug-in without a file gets its fields from its class.
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

REQUIRED = "???"  # placeholder for a value that the user must give


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
        files: folder of its options in `configs/`; empty: the name.
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


SAME = "same"
TIMM = "timm:"  # optional prefix of the name of a timm backbone
OPEN_CLIP = "open_clip:"  # prefix of the name of a network of open_clip
GROUPS: dict[str, Group] = {
    group.name: group
    for group in (
        Group("benchmark", "images and their classes", "glyphs", plugins=BENCHMARKS),
        Group("backbone", "the network: one of these, or the name of a timm model", "conv4", own=OWN),
        Group("training", "training settings on the base classes", "default", builds="fsl.training.base:Training"),
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
        Group(
            "method",
            "the clustering method: one of these, or a clusterer with scikit-learn's interface as module:Class",
            "slk_mean_shift",
            plugins=METHODS,
            estimators=True,
        ),
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
            "the clustering method: one of these, or a clusterer with scikit-learn's interface as module:Class",
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
        surplus = self.options.keys() - fields_of(group, built).keys()
        if surplus:
            file = f"configs/{self.group}/{self.name}.yaml"
            raise InputError(f"{file}: {self.plugin} has no field {', '.join(sorted(surplus))}; delete it there")
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
def folder() -> pathlib.Path:
    """Return the folder `configs/`: beside the packages in a checkout, inside `runs/` in an installation."""
    root = pathlib.Path(__file__).resolve().parents[1]
    return root / "configs" if (root / "configs").is_dir() else root.parent / "configs"


def options_folder(group: str) -> pathlib.Path:
    """Return the folder with the files of a group's options (or of the experiments)."""
    return folder() / ((GROUPS[group].files if group in GROUPS else "") or group)


def names(group: str) -> list[str]:
    """Return the names of a group's options (or of the experiments): its files, then the plug-ins without a file."""
    folder = options_folder(group)
    if group not in GROUPS:
        return sorted(path.relative_to(folder).with_suffix("").as_posix() for path in folder.rglob("*.yaml"))
    files = sorted(path.stem for path in folder.glob("*.yaml"))
    plugins, nothing = GROUPS[group].plugins, GROUPS[group].nothing
    others = [name for name in (plugins.names() if plugins else GROUPS[group].own) if name not in files]
    return [*([nothing] if nothing else []), *files, *others]


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
    """Return the option of that name, with the values of its file.

    Raises:
        InputError: the name is unknown (the message suggests the closest), or its file cannot be read.
    """
    return _option(group, name)


@cache
def _option(group: str, name: str) -> Choice:
    kind = GROUPS[group]
    if len(name) > 200:
        raise InputError(f"{kind.key}={name[:40]}...: the name is too long")
    if name and name == kind.nothing:
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
            f"network={name}: give your own network as an architecture: network=small_cnn architecture={name} trains "
            "it with the settings of small_cnn"
        )
    if kind.builds:
        raise unknown(kind.key, name, names(group))
    return Choice(group, name, plugin=name.removeprefix(TIMM))


def fields_of(group: Group, built: Any) -> dict[str, Any]:
    """Return the fields of a class with their defaults."""
    if group.estimators:
        return {name: freeze(value) for name, value in parameters(built, group.decided).items()}
    defaults = {}
    for item in dataclasses.fields(built):
        if item.default is not dataclasses.MISSING:
            defaults[item.name] = freeze(item.default)
        elif item.default_factory is not dataclasses.MISSING:
            defaults[item.name] = freeze(item.default_factory())
        else:
            defaults[item.name] = REQUIRED
    return defaults


def experiment(name: str) -> dict[str, Any]:
    """Return the keys and values of `configs/experiment/NAME.yaml`."""
    return read(options_folder("experiment") / f"{name}.yaml")


def read(path: pathlib.Path) -> dict[str, Any]:
    """Read a YAML file of keys and values.

    Raises:
        InputError: the file does not exist or is not valid; the message names the file and the line.
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
    """Return the content of a YAML file, cached until its modification time or size changes."""
    from runs.config.yaml_files import parse_yaml

    try:
        with open_regular(path) as file:
            content = parse_yaml(file.read().decode("utf-8"))
    except ValueError as error:
        raise InputError(f"{path}: not a readable YAML file: {error}") from error
    if content is None:
        return {}  # a file with only comments
    if not isinstance(content, dict) or not all(isinstance(key, str) for key in content):
        raise InputError(f"{path}: must consist of lines of the form `key: value`")
    return {str(key): _literal(value, f"{path}: {key}") for key, value in content.items()}


def _literal(value: Any, place: str) -> Any:
    r"""Return the literal value; neither environment variables nor other keys are substituted.

    `\${`, as written by `as_yaml`, becomes `${`.

    Raises:
        InputError: the value has an unescaped ${...} or a NUL character; the message names the file and the key.
    """
    if isinstance(value, dict):
        return {key: _literal(item, f"{place}.{key}") for key, item in value.items()}
    if isinstance(value, list):
        return [_literal(item, place) for item in value]
    if isinstance(value, str) and "\0" in value:
        raise InputError(f"{place}: {value!r} has a NUL character, which names and paths cannot have; delete it")
    if isinstance(value, str) and re.search(r"(?<!\\)\$\{", value):
        raise InputError(
            f"{place}: {value!r}: ${{...}} is not substituted, to keep secrets of the environment out of the record; "
            r"write the value itself, or \${ for these characters"
        )
    return value.replace(r"\${", "${") if isinstance(value, str) else value


def comments(group: str, name: str) -> dict[str, str]:
    """Return the comment beside each key in an option's file or its base; empty without a file."""
    path = options_folder(group) / f"{name}.yaml"
    if not path.is_file():
        return {}
    base = read(path).get("base")
    inherited = comments(group, base) if base else {}
    lines = re.finditer(r"^(\w+):[^#\n]*#[ ]*(.+)$", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return inherited | {match[1]: match[2].strip() for match in lines}


def comment(group: str, name: str) -> str:
    """Return the comment at the top of an option's file."""
    path = options_folder(group) / f"{name}.yaml"
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    head: list[str] = []
    for line in lines:
        if not line.startswith("#"):
            break
        head.append(line.lstrip("# "))
    return " ".join(head)


def freeze(value: Any) -> Any:
    """Convert lists to tuples, as frozen dataclasses hold them."""
    return tuple(freeze(item) for item in value) if isinstance(value, (list, tuple)) else value


def needs(strategy: type | None) -> str:
    """What a strategy uses besides features: its attribute `needs`, and class names; empty if nothing."""
    names = {"none": "", "optional": "class names (optional)", "required": "class names"}
    return ", ".join(filter(None, (getattr(strategy, "needs", ""), names[getattr(strategy, "text", "none")])))
