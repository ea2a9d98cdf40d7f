"""The methods: the explanation of each, its options, and its results in the record."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from clustering.foundation.errors import InputError
from runs.config import groups
from runs.config.overrides import write
from runs.record.query import RunRow
from runs.report.addresses import slug
from runs.report.explanation import Explanation, explain
from runs.stages.lineage import short_name

GROUP = "strategy"


@dataclass(frozen=True)
class Preset:
    """An option of the group that builds the method.

    Attributes:
        text: content of the option's file, whose comments explain every key; empty if there is no file.
        differs: fields whose values differ from the defaults of the method.
    """

    name: str
    text: str
    differs: Mapping[str, str]


@dataclass(frozen=True)
class Outcome:
    """A finished evaluation, as a row of a method's page."""

    run: RunRow
    network: str
    tasks: str
    variant: str

    @property
    def accuracy(self) -> float:
        """Mean accuracy over tasks, in [0, 1]; NaN if the run does not record it."""
        return self.run.metrics.get("accuracy", math.nan)

    @property
    def half_width(self) -> float:
        """Half-width of the 95 % confidence interval of the accuracy."""
        return self.run.metrics.get("accuracy_ci95", math.nan)


@dataclass(frozen=True)
class Method:
    """A strategy.

    Attributes:
        name: name of the plug-in, as typed.
        explanation: the docstring of its class.
        trouble: the reason why its class cannot be loaded; empty if it can be loaded.
        transductive: whether a prediction may depend on the other queries; None if unknown.
        assumes_balance: whether it assumes equally many queries in every class; None if unknown.
        needs: its other requirements on the features.
        presets: the options that build it; the option with its own name comes first.
        outcomes: the newest finished evaluation of each config, newest first.
        older: number of older finished evaluations of the same configs, which are omitted.
        failures: evaluations that failed or were interrupted, newest first.
    """

    name: str
    explanation: Explanation
    trouble: str
    transductive: bool | None
    assumes_balance: bool | None
    needs: str
    presets: tuple[Preset, ...]
    outcomes: tuple[Outcome, ...]
    older: int
    failures: tuple[RunRow, ...]

    @property
    def path(self) -> str:
        """The path of its first page in the site."""
        return f"methods/{slug(self.name)}.html"

    @property
    def kind(self) -> str:
        """Its declared properties, as printed in tables."""
        if self.transductive is None:
            return "not known"
        if not self.transductive:
            return "inductive"
        return "transductive, balanced" if self.assumes_balance else "transductive"


def methods(rows: Iterable[RunRow]) -> list[Method]:
    """Every strategy that is available here or that has runs in the record, in alphabetical order.

    Args:
        rows: runs of any stage and status, newest first.
    """
    by_plugin: dict[str, list[RunRow]] = {}
    for row in rows:
        if row.tags.get("stage") == "evaluation" and not _of_tuning(row):
            by_plugin.setdefault(_plugin(row), []).append(row)
    presets: dict[str, list[str]] = {}
    for name in groups.names(GROUP):
        presets.setdefault(groups.option(GROUP, name).plugin, []).append(name)
    known = sorted({*presets, *by_plugin} - {""}, key=str.lower)
    return [_method(name, presets.get(name, ()), by_plugin.get(name, ())) for name in known]


def _plugin(row: RunRow) -> str:
    return row.params.get(f"{GROUP}.name") or row.params.get(GROUP) or row.tags.get(GROUP, "")


def _method(name: str, options: Sequence[str], rows: Sequence[RunRow]) -> Method:
    kind, trouble = None, ""
    try:
        kind = groups.load(groups.GROUPS[GROUP], name)
    except InputError as error:
        trouble = str(error)
    newest: dict[str, RunRow] = {}
    finished = [row for row in rows if row.status == "FINISHED"]
    for row in finished:
        newest.setdefault(row.tags.get("key", row.run_id), row)
    order = sorted(options, key=lambda option: (option != name, option))
    return Method(
        name,
        explain(kind) if kind else Explanation("", (), {}),
        trouble,
        _declared(kind, "transductive", rows),
        _declared(kind, "assumes_balance", rows),
        groups.needs(kind),
        tuple(_preset(option, name) for option in order),
        tuple(_outcome(row) for row in newest.values()),
        len(finished) - len(newest),
        tuple(row for row in rows if row.status in ("FAILED", "KILLED")),
    )


def _declared(kind: Any, attribute: str, rows: Sequence[RunRow]) -> bool | None:
    """The value that the class declares or, if the class cannot be loaded, that its newest run records."""
    if kind is not None:
        return bool(getattr(kind, attribute, False))
    noted = {"True": True, "False": False}
    return next((noted[row.tags[attribute]] for row in rows if row.tags.get(attribute) in noted), None)


def _preset(option: str, method: str) -> Preset:
    path = groups.options_folder(GROUP) / f"{option}.yaml"
    own, base = _values(option), _values(method)
    differs = {field: value for field, value in own.items() if base.get(field, value) != value}
    return Preset(option, path.read_text(encoding="utf-8") if path.is_file() else "", differs)


def _values(option: str) -> dict[str, str]:
    """The values of an option's fields in the format of a run's parameters; empty for an unknown option."""
    try:
        options = groups.option(GROUP, option).options
    except InputError:
        return {}
    return {field: str(write(value) if isinstance(value, tuple) else value) for field, value in options.items()}


def _outcome(row: RunRow) -> Outcome:
    params, tags = row.params, row.tags
    network = f"{short_name(params.get('benchmark', '?'))}/{short_name(params.get('backbone', '?'))}"
    if tags.get("weights"):
        file = params.get("checkpoint", "None")
        network += " pretrained" if file == "None" else f", weights {PurePath(file).name or tags['weights']}"
    if params.get("target", groups.SAME) != groups.SAME:
        network += f", on {short_name(params['target'])}"
    parts = [f"{tags['way']}-way"] if "way" in tags else []
    parts += [f"{tags['shot']}-shot"] if "shot" in tags else []
    sampler = short_name(params.get("sampler", "balanced"))
    parts += [sampler] if sampler != "balanced" else []
    parts += [f"{params['split']} classes"] if params.get("split", "novel") != "novel" else []
    return Outcome(row, network, " ".join(parts), _variant(row))


def _variant(row: RunRow) -> str:
    """The differences between a run and the defaults of its method: the preset, values, and the tuned values."""
    option = row.params.get(GROUP, "")
    usual = _values(option)
    given = {name.partition(".")[2]: value for name, value in row.params.items() if name.startswith(f"{GROUP}.")}
    tuned = [name.partition(".")[2] for name in row.params if name.startswith("tuning.")]
    parts = [] if option == _plugin(row) else [short_name(option)]
    for field, value in given.items():
        if field in tuned:
            parts.append(f"{field}={value} (tuned)")
        elif usual.get(field, value) != value:
            parts.append(f"{field}={value}")
    return ", ".join(parts)


def _of_tuning(row: RunRow) -> bool:
    """Whether a run is a trial of a tuning, which is no result."""
    return row.experiment.startswith("tune/")
