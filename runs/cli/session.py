"""What the verbs that compute share: checked configs, the store, the record of runs, the plan."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from clustering.foundation.errors import InputError
from runs.config.configs import ClusterConfig, EvaluateConfig, FairConfig, RunConfig, TrainConfig, TuneConfig
from runs.config.overrides import write
from runs.console.output import Console

if TYPE_CHECKING:
    from runs.config.groups import Choice
    from runs.stages.clustering.results import Clustered
    from runs.stages.fair.results import FairResult
    from runs.stages.pipeline import Checkpoint, Plan, Result, Tuning


def _check(choice: "Choice", config: RunConfig) -> None:
    """That an option can be built, with each of the values that a tuning tries."""
    for point in choice.points():
        try:
            point.build()
        except InputError as error:
            if not choice.grids or not isinstance(config, (EvaluateConfig, TuneConfig)):
                raise
            tried = "; ".join(f"{field}: {write(values)}" for field, values in choice.grids.items())
            raise InputError(f"{error}; tuning={config.tuning} tries {tried}") from error


class Session:
    """Configs that were found right, with the store they write to.

    Args:
        configs: all of them with the same `results`.
        console: takes progress and messages.
        results: the folder of results, where there is no config to say it.

    Raises:
        InputError: a value that its strategy, benchmark or training does not take.
    """

    def __init__(self, configs: Sequence[RunConfig], console: Console, results: str | None = None) -> None:
        from fsl.training.machine import keep_freed_memory
        from runs.record.tracking import Tracker
        from runs.storage.store import Store

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
        """The resolved configs, and what would be done for them."""
        found = self.plan(self.configs)
        if self.console.as_json:
            self.console.json({"configs": [config.as_json() for config in self.configs], **found.as_dict()})
            return
        for i, config in enumerate(self.configs):
            self.console.write(f"# config {i + 1} of {len(self.configs)}\n{config.to_yaml()}")
        self.console.write(f"# plan, with results in {self.store.root}\n{found}")

    def plan(self, configs: Sequence[RunConfig]) -> "Plan":
        """What would be done for configs of one kind."""
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

    def checkpoint(self, config: TrainConfig, *, force: bool) -> "Checkpoint":
        """Train, or find the checkpoint."""
        from runs.stages import pipeline as stages

        return stages.checkpoint(config, self.store, self.tracker, progress=self.console, force=force)

    def evaluation(self, configs: Sequence[EvaluateConfig], *, force: bool) -> "list[Result]":
        """Evaluate, or find the results."""
        from runs.stages import pipeline as stages

        return stages.evaluation(configs, self.store, self.tracker, progress=self.console, force=force)

    def clustering(self, configs: Sequence[ClusterConfig], *, force: bool) -> "list[Clustered]":
        """Cluster, or find the results."""
        from runs.stages.clustering.stage import clustering

        return clustering(configs, self.store, self.tracker, progress=self.console, force=force)

    def fair(self, configs: Sequence[FairConfig], *, force: bool) -> "tuple[list[FairResult], list[Exception]]":
        """Cluster fairly, or find the results; and the errors of methods that failed."""
        from runs.stages.fair.stage import fair_clustering

        return fair_clustering(configs, self.store, self.tracker, progress=self.console, force=force)

    def tuning(self, config: TuneConfig, *, force: bool) -> "Tuning":
        """Choose values, or find the choice."""
        from runs.stages import pipeline as stages

        return stages.tune(config, self.store, self.tracker, progress=self.console, force=force)

    def varying(self, config: RunConfig, leave_out: Sequence[str] = ()) -> dict[str, str]:
        """Keys that differ between the configs that have them, with this config's values as text."""
        flats = [other.shown() for other in self.configs]
        order = {group: i for i, group in enumerate((*config.choices(), ""))}
        keys = sorted(
            dict.fromkeys(key for flat in flats for key in flat),
            key=lambda key: order[key.partition(".")[0] if "." in key or key in order else ""],
        )
        found = {}
        for key in keys:
            values = {flat[key] for flat in flats if key in flat} - {"tuned"}
            if len(values) > 1 and key not in leave_out and not self._shadowed(key):
                found[key.rpartition(".")[2]] = config.shown().get(key, "")
        return found

    def _shadowed(self, key: str) -> bool:
        """Whether a field only differs because its group has different options."""
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
        """Say where the results are."""
        place = self.store.root if self.tracker.own else self.tracker.place
        self.console.note(f"runs: {place} (transduce ui opens them)")
