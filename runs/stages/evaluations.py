"""Stage three: strategies on tasks; each config has a run of its own."""

import dataclasses
import functools
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from clustering.foundation.progress import Progress, quiet
from fsl.evaluation.scores import Evaluation
from runs.cache import Entry, Store, raised
from runs.config.configs import EvaluateConfig
from runs.config.overrides import spell, write
from runs.record.tracked_run import TrackedRun
from runs.stages.banks import features, pictures
from runs.stages.given_features import check_transform
from runs.stages.lineage import Lineage, Lineages, common_tags, evaluate_name, short
from runs.stages.preflight import preflight, tasks_of
from runs.stages.results import PER_TASK, Result, Tuned
from runs.stages.revisions import revisions_of
from runs.stages.stage import Computed, Stage, Workspace, execute
from runs.track import Tracker

if TYPE_CHECKING:
    from fsl.evaluation.unfinished import Unfinished
    from fsl.features.bank import FeatureBank
    from fsl.features.pictures import Pictures

TASK_TAGS = ("way", "shot", "query")


@dataclass(frozen=True)
class Parent:
    """The parent run of evaluations, in its experiment; without a parent, they are in `evaluate/<benchmark>`.

    Attributes:
        experiment: name of the run's experiment.
        run_id: id of the run.
        fields: fields of the strategy that differ between the children and form their names.
    """

    experiment: str
    run_id: str
    fields: tuple[str, ...]


def batch_key(config: EvaluateConfig, lineage: Lineage) -> tuple[Any, ...]:
    """Return a key that is equal for configs with the same features and tasks, which are evaluated together.

    A config that trains a network on each task is evaluated alone, task by task.
    """
    sampler = (config.sampler.plugin, *config.sampler.options.items())
    tasks = (sampler, config.count(), config.seed_of_tasks, config.base_mean, config.audit)
    alone = lineage.evaluation(config) if config.needs_images else ""
    return (lineage.bank(config.split), *tasks, config.batch, config.device, alone)


EvaluationInputs = tuple["FeatureBank", "Pictures | None"]
"""The features of the classes; and, for strategies that need them, the images of the features and their network."""


@dataclass(frozen=True)
class EvaluationStage(Stage[EvaluationInputs, Evaluation, Result]):
    """One config whose strategy is evaluated.

    Attributes:
        config: the config with the tuned values.
        asked: the config before the tuning.
        lineage: lineage of the config.
        parent: parent of its run.
        tuned: the tuned values; None if there is nothing to tune.
    """

    kind, noun, artifacts = "evaluation", "the evaluation", (PER_TASK,)

    config: EvaluateConfig
    asked: EvaluateConfig
    lineage: Lineage
    parent: Parent | None
    tuned: Tuned | None

    @functools.cached_property
    def key(self) -> str:
        return self.lineage.evaluation(self.asked)

    @property
    def experiment(self) -> str:
        return self.parent.experiment if self.parent else f"evaluate/{short(self.config.benchmark)}"

    @property
    def parent_run(self) -> str:
        return self.parent.run_id if self.parent else ""

    @property
    def label(self) -> str:
        """The name of the strategy, or the values that distinguish it from the other children."""
        strategy = self.config.strategy
        if self.parent is None:
            return short(strategy)
        return spell({field: strategy.options[field] for field in self.parent.fields})

    @property
    def name(self) -> str:
        return f"{self.label} {self.config.split}" if self.parent else evaluate_name(self.config)

    @property
    def batch(self) -> Hashable:
        return batch_key(self.config, self.lineage)

    @property
    def yaml(self) -> str:
        return self.asked.to_yaml()

    @property
    def flat(self) -> dict[str, Any]:
        """The values used, and the values from which the tuned ones were chosen."""
        grids = {f"tuning.{field}": write(grid) for field, grid in self.asked.strategy.grids.items()}
        return self.config.flat() | grids

    @property
    def tags(self) -> dict[str, Any]:
        config, lineage = self.config, self.lineage
        strategy, options = config.strategy.kind, config.sampler.options
        tuned = {"tuning_key": self.tuned.key, "tuning_run": self.tuned.run_id} if self.tuned else {}
        return {
            **common_tags(config, lineage),
            **tuned,
            "revisions": raised(revisions_of(self.asked)),
            "strategy": short(config.strategy),
            "sampler": config.sampler.name,
            **{name: options[name] for name in TASK_TAGS if name in options},
            "split": config.split,
            "transductive": getattr(strategy, "transductive", ""),
            "assumes_balance": getattr(strategy, "assumes_balance", ""),
        }

    def prepare(self, work: Workspace) -> EvaluationInputs:
        config, (store, tracker, progress, _), lineage = self.config, work, self.lineage
        # The network is first: if it has to be trained, the features are computed with its weights.
        shown = None
        if config.needs_images:
            shown = pictures(config, store, tracker, progress=progress, lineage=lineage)
        return features(config, config.split, store, tracker, progress=progress, lineage=lineage), shown

    @classmethod
    def compute_batch(
        cls, batch: Sequence[tuple[Self, TrackedRun]], prepared: EvaluationInputs, work: Workspace
    ) -> Iterator[Computed[Evaluation] | Exception]:
        from fsl.evaluation.episodic import evaluate
        from fsl.machine import resolve_device

        stages, (bank, shown) = [stage for stage, _ in batch], prepared
        config = stages[0].config
        names = [stage.label for stage in stages]
        labels = [name if names.count(name) == 1 else f"{name} {i}" for i, name in enumerate(names, 1)]
        tasks = tasks_of(config, bank)
        failed: dict[str, Exception] = {}
        found = evaluate(
            {label: stage.config.strategy.build() for label, stage in zip(labels, stages, strict=True)},
            bank,
            tasks,
            config.count(tasks.limit),
            batch=config.batch,
            device=resolve_device(config.device),
            progress=work.progress,
            audits=config.audit,
            failures=failed,
            pictures=shown,
            unfinished=stages[0]._unfinished(bank, work) if shown else None,
        )
        for label, stage in zip(labels, stages, strict=True):
            yield failed[label] if label in failed else stage._computed(found[label], bank, work)

    def _computed(self, found: Evaluation, bank: "FeatureBank", work: Workspace) -> Computed[Evaluation]:
        store, tasks = work.store, len(found.accuracies)
        tuned = (f"tuning/{self.tuned.key}",) if self.tuned else ()
        inputs = store.fingerprints(*self.lineage.made_of(self.config.split), *tuned)
        trained = store.cache("checkpoint") / self.lineage.checkpoint
        training = Entry(trained, "").run_id(work.tracker.note_of()) if self.lineage.checkpoint else ""
        tags = {
            "interval": f"over {found.units}",
            "checkpoint": bank.provenance.get("checkpoint", ""),
            "features": bank.fingerprint(),
            **({"training_run": training, "model": f"runs:/{training}/model"} if training else {}),
        }
        counts = {"seconds": found.seconds_per_task * tasks, "tasks": tasks}
        return Computed(found, found.metrics() | counts, tags, inputs, self.lineage.data(self.config.split))

    def _unfinished(self, bank: "FeatureBank", work: Workspace) -> "Unfinished":
        """Return the intermediate results of an interrupted evaluation on these features."""
        from fsl.evaluation.unfinished import Unfinished

        folder = work.store.working(self.kind, self.key, force=work.force)
        found = Unfinished(folder / "tasks.safetensors", bank.fingerprint())
        if found.done:
            work.progress.note(f"{self.name}: going on after {found.done:,} tasks")
        return found

    def save(self, content: Evaluation, folder: Path) -> None:
        content.save(folder / PER_TASK)

    def load(self, entry: Entry) -> Evaluation:
        found = Evaluation.load(entry.path / PER_TASK)
        return dataclasses.replace(found, seconds_per_task=entry.metrics["seconds_per_task"])

    def result(self, content: Evaluation, entry: Entry, run_id: str) -> Result:
        return Result(
            **vars(content), config=self.asked, key=self.key, run_id=run_id, reused=entry.reused, tuned=self.tuned
        )


def evaluation(
    configs: Sequence[EvaluateConfig],
    store: Store,
    tracker: Tracker,
    *,
    progress: Progress = quiet,
    force: bool = False,
    tuned: Sequence[Tuned | None] | None = None,
    parent: Parent | None = None,
    failures: list[tuple[str, Exception]] | None = None,
) -> list[Result]:
    """Return the result of each config, in order; finished ones are taken from the cache.

    Strategies on the same tasks share the gathered features. Each config has a run of its own. If a strategy fails,
    the others are evaluated and recorded before its error is raised.

    Args:
        force: evaluate again, even if the result is in the cache.
        tuned: the tuned values of each config; None for a config without tuning.
        parent: the runs become its children.
        failures: list to which failed strategies are appended, with the names of their runs; the results are those of
            the other strategies. If it is None, the first error is raised.

    Raises:
        InputError: wrong values, an audit that a strategy does not support, or tasks that the classes cannot give;
            raised before any training.
    """
    work = Workspace(store, tracker, progress, force)
    stages = _stages(configs, tuned or [None] * len(configs), parent)
    results, failed = execute(stages, work, check=lambda batches: _preflight(batches, work))
    if failures is not None:
        failures += failed
    elif failed:
        raise failed[0][1]
    made = [stage for stage in stages if stage.key in results]
    return [dataclasses.replace(results[stage.key], config=stage.asked) for stage in made]


def check(configs: Sequence[EvaluateConfig], store: Store, tracker: Tracker, progress: Progress = quiet) -> None:
    """Check, as far as possible before hours of work, that these configs can be evaluated.

    Raises:
        InputError: as `evaluation`.
    """
    batches: dict[Hashable, list[EvaluationStage]] = {}
    for stage in _stages(configs, [None] * len(configs), None):
        batches.setdefault(stage.batch, []).append(stage)
    _preflight(list(batches.values()), Workspace(store, tracker, progress))


def _stages(
    configs: Sequence[EvaluateConfig], tuned: Sequence[Tuned | None], parent: Parent | None
) -> list[EvaluationStage]:
    from fsl.episodes import check_strategy
    from fsl.evaluation.audits import check_audits

    lineages, stages = Lineages(), []
    for config, chosen in zip(configs, tuned, strict=True):
        strategy = next(config.strategy.points()).build()
        check_strategy(config.strategy.name, strategy)
        check_audits(config.audit, config.strategy.name, strategy)
        if config.features is not None:
            check_transform(strategy, config.strategy.name, config.feature_files, config.split)
        settled = config.settled(chosen.values if chosen else {})
        stages.append(EvaluationStage(settled, config, lineages.of(config), parent, chosen))
    return stages


def _preflight(batches: Sequence[Sequence[EvaluationStage]], work: Workspace) -> None:
    asked = [([stage.config for stage in batch], batch[0].lineage) for batch in batches]
    preflight(asked, work.store, work.tracker, work.progress)
