"""The page of each method: what it is, its options, and its results in the record."""

import inspect
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from markupsafe import Markup

from clustering.foundation.errors import InputError
from runs.config import groups
from runs.config.overrides import write
from runs.record.query import RunRow
from runs.report.convergence import convergence
from runs.report.rendering import Renderer, date, link_from, percent, slug
from runs.report.sections import Item, Section, table_of
from runs.stages.lineage import short_name
from runs.track import Tracker

GROUP = "strategy"
FAILURES = 20  # maximum number of failed runs that are listed
LOOKS_AT = {
    None: "not known",
    False: "each query by itself (inductive)",
    True: "all queries of a task together (transductive)",
}
ASSUMES = {
    None: "not known",
    False: "nothing about the classes of the queries",
    True: "equally many queries of every class",
}


@dataclass(frozen=True)
class Method:
    """A strategy.

    Attributes:
        name: name of the plug-in, as typed.
        kind: its class; None if it cannot be loaded, with the reason in `trouble`.
        options: the options that build it; the option with its own name comes first.
        results: the newest finished evaluation of each config, newest first.
        failures: evaluations that failed or were interrupted, newest first.
    """

    name: str
    kind: Any
    trouble: str
    options: tuple[str, ...]
    results: tuple[RunRow, ...]
    failures: tuple[RunRow, ...]

    @property
    def path(self) -> str:
        """The path of its page in the site."""
        return f"methods/{slug(self.name)}.html"

    def declares(self, attribute: str) -> bool | None:
        """The value that the class declares or, if the class cannot be loaded, that its newest run records."""
        if self.kind is not None:
            return bool(getattr(self.kind, attribute, False))
        noted = {"True": True, "False": False}
        return next((noted[run.tags[attribute]] for run in self.results if run.tags.get(attribute) in noted), None)

    @property
    def properties(self) -> str:
        """Its declared properties in a word or two."""
        if not (transductive := self.declares("transductive")):
            return "not known" if transductive is None else "inductive"
        return "transductive, balanced" if self.declares("assumes_balance") else "transductive"


def methods(rows: Iterable[RunRow]) -> list[Method]:
    """Every strategy that is available here or that has runs in the record, in alphabetical order.

    Args:
        rows: runs of any stage and status, newest first.
    """
    by_plugin: dict[str, list[RunRow]] = {}
    for row in rows:
        if row.tags.get("stage") == "evaluation" and not row.experiment.startswith("tune/"):
            by_plugin.setdefault(_plugin(row), []).append(row)
    options: dict[str, list[str]] = {}
    for name in groups.names(GROUP):
        options.setdefault(groups.option(GROUP, name).plugin, []).append(name)
    known = sorted({*options, *by_plugin} - {""}, key=str.lower)
    return [_method(name, options.get(name, ()), by_plugin.get(name, ())) for name in known]


def _plugin(row: RunRow) -> str:
    return row.params.get(f"{GROUP}.name") or row.params.get(GROUP) or row.tags.get(GROUP, "")


def _method(name: str, options: Sequence[str], rows: Sequence[RunRow]) -> Method:
    kind, trouble, newest = None, "", dict[str, RunRow]()
    try:
        kind = groups.load(groups.GROUPS[GROUP], name)
    except InputError as error:
        trouble = str(error)
    for row in rows:
        if row.status == "FINISHED":
            newest.setdefault(row.tags.get("key", row.run_id), row)
    order = tuple(sorted(options, key=lambda option: (option != name, option)))
    failed = tuple(row for row in rows if row.status in ("FAILED", "KILLED"))
    return Method(name, kind, trouble, order, tuple(newest.values()), failed)


def method_pages(method: Method, renderer: Renderer, tracker: Tracker) -> Iterator[tuple[str, str]]:
    """(path, text) of the page of a method, and of the picture on it."""
    path, kind = method.path, method.kind
    facts = [
        Item(f"Looks at {LOOKS_AT[method.declares('transductive')]}."),
        Item(f"Assumes {ASSUMES[method.declares('assumes_balance')]}."),
        Item(f"Needs {groups.needs(kind) or 'any features'}."),
        Item("Name:", f"strategy={method.name}"),
    ]
    about = [Section("What it does", items=facts, body=_pre(inspect.getdoc(kind) or "" if kind else method.trouble))]
    usual = sorted(method.results, key=lambda run: bool(_variant(run)))  # default values first
    drawing, run, trouble = convergence(usual, tracker)
    if run:
        picture = f"{path.removesuffix('.html')}.svg"
        yield picture, drawing
        words = Markup(
            "How far the objective is above where each task stops, by step: median (line) and what nine of ten tasks "
            "are below (band), cut off at 1e-6. Run {}."
        ).format(renderer.run_link(path, run.run_id, run.name))
        about.append(Section("Convergence", picture=link_from(path)(picture), about=words))
    elif trouble:
        about.append(Section("Convergence", [f"{trouble}."]))
    config = [Markup("<h3>{}</h3>{}").format(option, _pre(_yaml(option, method.name))) for option in method.options]
    yield renderer.page(
        path,
        method.name,
        [*about, Section("Config", body=Markup("").join(config)), *_results(method, renderer)],
    )


def _results(method: Method, renderer: Renderer) -> Iterator[Section]:
    """The newest result of each config, and the failures."""
    rows = []
    for run in method.results:
        accuracy = percent(*(run.metrics.get(name, float("nan")) for name in ("accuracy", "accuracy_ci95")))
        seconds = run.metrics.get("seconds_per_task")
        rows.append(
            (
                _network(run),
                _tasks(run),
                _variant(run),
                run.params.get("seed", ""),
                renderer.run_link(method.path, run.run_id, accuracy),
                "" if seconds is None else f"{1000 * seconds:.3g}",
                date(run.start),
            )
        )
    headings = ["network", "*tasks", "*other than the defaults", "seed", "accuracy, %", "ms a task", "*began (UTC)"]
    about = "± is half of the 95 % interval over tasks; of a single task, over its queries."
    none = Section(
        "Results", [Markup("No run of yours yet: <code>transduce evaluate strategy={}</code>.").format(method.name)]
    )
    yield Section("Results", tables=[table_of(headings, rows, about, sortable=True)]) if rows else none
    if method.failures:
        items = [
            Item(
                Markup("{}, {}: {} {}").format(
                    renderer.run_link(method.path, run.run_id, run.name),
                    date(run.start),
                    run.status.lower(),
                    run.tags.get("ended", "")[:300],
                )
            )
            for run in method.failures[:FAILURES]
        ]
        yield Section(f"Failed or interrupted: {len(method.failures)}", items=items)


def _pre(text: str) -> Markup:
    return Markup('<pre class="scroll" tabindex="0">{}</pre>').format(text)


def _yaml(option: str, method: str) -> str:
    """The file of an option, whose comments explain every key; otherwise the values that differ from the method's."""
    path = groups.options_folder(GROUP) / f"{option}.yaml"
    own, base = _values(option), _values(method)
    differs = "".join(f"{field}: {value}\n" for field, value in own.items() if base.get(field, value) != value)
    return path.read_text(encoding="utf-8") if path.is_file() else differs or "the defaults"


def _values(option: str) -> dict[str, str]:
    """The values of an option's fields in the format of a run's parameters; empty for an unknown option."""
    try:
        options = groups.option(GROUP, option).options
    except InputError:
        return {}
    return {field: str(write(value) if isinstance(value, tuple) else value) for field, value in options.items()}


def _network(run: RunRow) -> str:
    params, tags = run.params, run.tags
    network = f"{short_name(params.get('benchmark', '?'))}/{short_name(params.get('backbone', '?'))}"
    if tags.get("weights"):
        file = params.get("checkpoint", "None")
        network += " pretrained" if file == "None" else f", weights {PurePath(file).name or tags['weights']}"
    target = params.get("target", groups.SAME)
    return network if target == groups.SAME else f"{network}, on {short_name(target)}"


def _tasks(run: RunRow) -> str:
    sampler, split = short_name(run.params.get("sampler", "balanced")), run.params.get("split", "novel")
    parts = [f"{run.tags[name]}-{name}" for name in ("way", "shot") if name in run.tags]
    return " ".join([*parts, *([sampler] if sampler != "balanced" else []), *([split] if split != "novel" else [])])


def _variant(run: RunRow) -> str:
    """The differences between a run and the defaults of its method: the option, values, and the tuned values."""
    option = run.params.get(GROUP, "")
    usual = _values(option)
    parts = [] if option == _plugin(run) else [short_name(option)]
    for name, value in run.params.items():
        group, _, field = name.partition(".")
        if group == GROUP and f"tuning.{field}" in run.params:
            parts.append(f"{field}={value} (tuned)")
        elif group == GROUP and field and usual.get(field, value) != value:
            parts.append(f"{field}={value}")
    return ", ".join(parts)
