"""State shared by the verbs that run stages: checked configs, the store, the record of runs, and the plan."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from clustering.foundation.errors import InputError
from runs.config.configs import ClusterConfig, EvaluateConfig, FairConfig, RunConfig, TrainConfig, TuneConfig
from runs.config.overrides import write
from runs.console.output import Console

if TYPE_CHECKING:
    from runs.cache import Entry
    from runs.config.groups import Choice
    from runs.stages.clustering.results import Clustered
    from runs.stages.fair.results import FairResult
    from runs.stages.pipeline import Plan, Result, Tuning


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

    def show_plan(self) -> None:
        """Print the resolved configs and the planned steps."""
        plan = self.plan(self.configs)
        if self.console.as_json:
            self.console.json({"configs": [config.as_json() for config in self.configs], **plan.as_dict()})
            return
        for i, config in enumerate(self.configs):
            self.console.write(f"# config {i + 1} of {len(self.configs)}\n{config.to_yaml()}")
        self.console.write(f"# plan, with results in {self.store.root}\n{plan}")

    def plan(self, configs: Sequence[RunConfig]) -> "Plan":
        """Return the planned steps for configs of one kind."""
        from runs.stages import pipeline as stages
        from runs.stages.clustering import stage as clusterings
        from runs.stages.fair import stage as fairness_stage

        fair = [config for config in configs if isinstance(config, FairConfig)]
        if fair:
            return fairness_stage.plan(fair, self.tracker)
        clusters = [config for config in configs if isinstance(config, ClusterConfig)]
        if clusters:
            return clusterings.plan(clusters, self.store, self.tracker)
        trained = [config for config in configs if isinstance(config, TrainConfig)]
        return stages.plan(trained, self.store, self.tracker)

    def checkpoint(self, config: TrainConfig, *, force: bool) -> "Entry":
        """Train a backbone, or reuse its checkpoint."""
        from runs.stages import pipeline as stages

        return stages.checkpoint(config, self.store, self.tracker, progress=self.console, force=force)

    def evaluation(self, configs: Sequence[EvaluateConfig], *, force: bool) -> "list[Result]":
        """Run evaluations, or reuse their results."""
        from runs.stages import pipeline as stages

        return stages.evaluation(configs, self.store, self.tracker, progress=self.console, force=force)

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
        from runs.stages import pipeline as stages

        return stages.tune(config, self.store, self.tracker, progress=self.console, force=force)

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

    def close(self) -> None:
        """Print where the results are."""
        place = self.store.root if self.tracker.own else self.tracker.place
        self.console.note(f"runs: {place} (open them with transduce ui)")
