"""State shared by the verbs that run stages: checked configs, the store, the record of runs, and the plan."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from clustering.foundation.errors import InputError
from runs.config.base import top_level
from runs.config.configs import (
    ClusterConfig,
    EvaluateConfig,
    FairConfig,
    RunConfig,
    TrainConfig,
    TuneConfig,
)
from runs.config.overrides import write
from runs.config.yaml_files import as_yaml
from runs.console.output import Console

if TYPE_CHECKING:
    from runs.cache import Entry
    from runs.config.groups import Choice
    from runs.plan import Plan
    from runs.stages.clustering.results import Clustered
    from runs.stages.fair.results import FairResult
    from runs.stages.pipeline import Result, Tuning

VARIED = 12  # configs after the first of which a dry run shows what varies
STEPS = 20  # lines of a plan that a dry run shows


class Session:
    """Validated configs, with the store and the record they use.

    Args:
        configs: configs with the same `results`.
        console: shows progress and messages.
        results: the folder of results if `configs` is empty.

    Raises:
        InputError: a strategy, benchmark or training rejects a value.
    """

    def __init__(self, configs: Sequence[RunConfig], console: Console, results: str | None = None) -> None:
        from fsl.machine import keep_freed_memory
        from runs.cache import Store
        from runs.track import Tracker

        self.configs = configs
        self.console = console
        if len({config.results for config in configs}) > 1:
            raise InputError("results= takes one folder, not several")
        built = []
        for config in configs:
            for choice in config.choices().values():
                if choice not in built:
                    _check(choice, config)
                    built.append(choice)
        keep_freed_memory()
        self.store = Store(configs[0].results if configs else results)
        self.tracker = Tracker(self.store, say=console.note)

    def show_plan(self) -> int:
        """Print the first resolved config, what varies in the others, and the planned steps; return the exit code."""
        plan = self.plan(self.configs)
        if self.console.as_json:
            self.console.json({"configs": [config.as_json() for config in self.configs], **plan.as_dict()})
            return 0
        count = len(self.configs)
        for config in self.configs[:1]:
            several = f"config 1 of {count}" if count > 1 else "config"
            self.console.write(f"# {several}\n{config.to_yaml() if count == 1 else _short_yaml(config)}")
        for i, config in enumerate(self.configs[1 : VARIED + 1], 2):
            varied = " ".join(f"{key}={value}" for key, value in self.varying(config).items())
            self.console.write(f"# config {i}: {varied}")
        if count > VARIED + 1:
            self.console.write(f"# and {count - VARIED - 1:,} more; transduce config prints all of them")
        *steps, summary = str(plan).splitlines() or [""]
        more = [f"and {len(steps) - STEPS:,} more steps"] if len(steps) > STEPS else []
        self.console.write("\n".join([f"# plan, with results in {self.store.root}", *steps[:STEPS], *more, summary]))
        return 0

    def plan(self, configs: Sequence[RunConfig]) -> "Plan":
        """Return the planned steps for configs of one kind."""
        fair = [config for config in configs if isinstance(config, FairConfig)]
        if fair:
            from runs.stages.fair import stage as fair_stage

            return fair_stage.plan(fair, self.store)
        clusters = [config for config in configs if isinstance(config, ClusterConfig)]
        if clusters:
            from runs.stages.clustering import stage as clustering_stage

            return clustering_stage.plan(clusters, self.store)
        from runs.plan import plan

        return plan([config for config in configs if isinstance(config, TrainConfig)], self.store)

    def checkpoint(self, config: TrainConfig, *, force: bool) -> "Entry":
        """Train a backbone, or reuse its checkpoint."""
        from runs.stages import pipeline

        return pipeline.checkpoint(config, self.store, self.tracker, progress=self.console, force=force)

    def evaluation(self, configs: Sequence[EvaluateConfig], *, force: bool) -> "list[Result]":
        """Run evaluations, or reuse their results."""
        from runs.stages import pipeline

        return pipeline.evaluation(configs, self.store, self.tracker, progress=self.console, force=force)

    def clustering(self, configs: Sequence[ClusterConfig], *, force: bool) -> "list[Clustered]":
        """Run clusterings, or reuse their results."""
        from runs.stages.clustering.stage import clustering

        return clustering(configs, self.store, self.tracker, progress=self.console, force=force)

    def fair(self, configs: Sequence[FairConfig], *, force: bool) -> "tuple[list[FairResult], list[Exception]]":
        """Run fair clusterings, or reuse their results; also returns the errors of failed methods."""
        from runs.stages.fair.stage import fair_clustering

        return fair_clustering(configs, self.store, self.tracker, progress=self.console, force=force)

    def tuning(self, config: TuneConfig, *, force: bool) -> "Tuning":
        """Tune a strategy, or reuse the chosen values."""
        from runs.stages import pipeline

        return pipeline.tune(config, self.store, self.tracker, progress=self.console, force=force)

    def run(self, config: EvaluateConfig | TuneConfig | ClusterConfig | FairConfig) -> list[Exception]:
        """Run one config of any verb, or reuse its result; return the errors that a fair clustering survives."""
        if isinstance(config, FairConfig):
            return self.fair([config], force=False)[1]
        if isinstance(config, ClusterConfig):
            self.clustering([config], force=False)
        elif isinstance(config, TuneConfig):
            self.tuning(config, force=False)
        else:
            self.evaluation([config], force=False)
        return []

    def varying(self, config: RunConfig, leave_out: Sequence[str] = ()) -> dict[str, str]:
        """Return keys with different values among the configs, with this config's values as text."""
        flats = [other.shown() for other in self.configs]
        order = {group: i for i, group in enumerate((*config.choices(), ""))}
        keys = sorted(
            dict.fromkeys(key for flat in flats for key in flat),
            key=lambda key: order.get(key.partition(".")[0], order[""]),
        )
        varying = {}
        for key in keys:
            values = {flat[key] for flat in flats if key in flat} - {"tuned"}
            if len(values) > 1 and key not in leave_out and not self._shadowed(key):
                varying[key.rpartition(".")[2]] = config.shown().get(key, "")
        return varying

    def _shadowed(self, key: str) -> bool:
        """Return whether a field differs only because the configs choose different options of its group."""
        group, dot, field = key.partition(".")
        if not dot:
            return False
        by_name: dict[str, set[str]] = {}
        for config in self.configs:
            choice = config.choices().get(group)
            if choice and field in choice.options:
                by_name.setdefault(choice.name, set()).add(str(choice.options[field]))
        return all(len(values) == 1 for values in by_name.values())

    def close(self) -> int:
        """Print where the results are; return the exit code."""
        place = self.store.root if self.tracker.own else self.tracker.place
        self.console.note(f"runs: {place} (open them with transduce ui)")
        return 0


def _short_yaml(config: RunConfig) -> str:
    """Return a config as YAML with a line for each group, and without top-level keys that have their default."""
    defaults = {field.name: field.default for field in top_level(type(config))}
    kept = {key: value for key, value in config.nested().items() if key not in defaults or value != defaults[key]}
    return "".join(f"{key}: {as_yaml(value)}\n" for key, value in kept.items())


def _check(choice: "Choice", config: RunConfig) -> None:
    """Raise InputError unless the option can be built, also with each value that tuning tries."""
    for point in choice.points():
        try:
            point.build()
        except InputError as error:
            if not choice.grids or not isinstance(config, (EvaluateConfig, TuneConfig)):
                raise
            tried = "; ".join(f"{field}: {write(values)}" for field, values in choice.grids.items())
            raise InputError(f"{error}; tuning={config.tuning} tries {tried}") from error
