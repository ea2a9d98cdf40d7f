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
from runs.config.configs import EvaluateConfig, TuneConfig
from runs.config.overrides import spell, write
from runs.record.tracked_run import TrackedRun
from runs.stages.banks import features, pictures
from runs.stages.given_features import check_transform
from runs.stages.lineage import Lineage, Lineages, common_tags, evaluate_name, short
from runs.stages.preflight import preflight, tasks_of
from runs.stages.results import PER_TASK, Result, Tuned
from runs.stages.revisions import revisions_of
from runs.stages.stage import Computed, Failures, Stage, Workspace, execute
from runs.track import Tracker

if TYPE_CHECKING:
    from fsl.features.bank import FeatureBank
    from fsl.features.pictures import Pictures


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


@dataclass(frozen=True)
class EvaluationStage(Stage):
    """One config whose strategy is evaluated.

    Attributes:
        config: the config with the tuned values.
        asked: the config before the tuning.
        lineage: lineage of the config.
        parent: parent of its run.
        tuned: the tuned values; None if there is nothing to tune.
    """

    kind, artifacts = "evaluation", (PER_TASK,)

    config: EvaluateConfig
    asked: EvaluateConfig
    lineage: Lineage
    parent: Parent | None = None
    tuned: Tuned | None = None

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
        config, strategy = self.config, self.config.strategy.kind
        tuned = {"tuning_key": self.tuned.key, "tuning_run": self.tuned.run_id} if self.tuned else {}
        return {
            **common_tags(config, self.lineage),
            **tuned,
            "revisions": raised(revisions_of(self.asked)),
            "strategy": short(config.strategy),
            **task_tags(config),
            "split": config.split,
            "transductive": getattr(strategy, "transductive", ""),
            "assumes_balance": getattr(strategy, "assumes_balance", ""),
        }

    def prepare(self, work: Workspace) -> "tuple[FeatureBank, Pictures | None]":
        """Return the features of the classes and, for strategies that need them, their images with the network."""
        config, (store, tracker, progress, _), lineage = self.config, work, self.lineage
        # The network is first: if it has to be trained, the features are computed with its weights.
        shown = None
        if config.needs_images:
            shown = pictures(config, store, tracker, progress=progress, lineage=lineage)
        return features(config, config.split, store, tracker, progress=progress, lineage=lineage), shown

    @classmethod
    def compute_batch(
        cls, batch: Sequence[tuple[Self, TrackedRun]], prepared: "tuple[FeatureBank, Pictures | None]", work: Workspace
    ) -> Iterator[Computed | Exception]:
        from fsl.evaluation.episodic import evaluate
        from fsl.evaluation.unfinished import Unfinished
        from fsl.machine import resolve_device

        stages, (bank, shown), unfinished = [stage for stage, _ in batch], prepared, None
        first, names = stages[0], [stage.label for stage in stages]
        labels = [name if names.count(name) == 1 else f"{name} {i}" for i, name in enumerate(names, 1)]
        config, failed = first.config, dict[str, Exception]()
        tasks = tasks_of(config, bank)
        if shown:  # hours, which may be interrupted
            folder = work.store.working(first.kind, first.key, force=work.force)
            unfinished = Unfinished(folder / "tasks.safetensors", bank.fingerprint())
            if unfinished.done:
                work.progress.note(f"{first.name}: going on after {unfinished.done:,} tasks")
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
            unfinished=unfinished,
        )
        for label, stage in zip(labels, stages, strict=True):
            yield failed[label] if label in failed else stage._computed(found[label], bank, work)

    def _computed(self, found: Evaluation, bank: "FeatureBank", work: Workspace) -> Computed:
        store, split, tasks = work.store, self.config.split, len(found.accuracies)
        inputs = store.fingerprints(*self.lineage.made_of(split), *([f"tuning/{self.tuned.key}"] if self.tuned else []))
        trained = Entry(store.cache("checkpoint") / self.lineage.checkpoint, "")
        training = trained.run_id(work.tracker.note_of()) if self.lineage.checkpoint else ""
        tags = {
            "interval": f"over {found.units}",
            "checkpoint": bank.provenance.get("checkpoint", ""),
            "features": bank.fingerprint(),
            **({"training_run": training, "model": f"runs:/{training}/model"} if training else {}),
        }
        counts = {"seconds": found.seconds_per_task * tasks, "tasks": tasks}
        return Computed(found, found.metrics() | counts, tags, inputs, self.lineage.data(split))

    def save(self, content: Evaluation, folder: Path) -> None:
        content.save(folder / PER_TASK)

    def load(self, entry: Entry) -> Evaluation:
        found = Evaluation.load(entry.path / PER_TASK)
        return dataclasses.replace(found, seconds_per_task=entry.metrics["seconds_per_task"])

    def result(self, content: Evaluation, entry: Entry, run_id: str) -> Result:
        return Result(
            **vars(content), config=self.asked, key=self.key, run_id=run_id, reused=entry.reused, tuned=self.tuned
        )


def task_tags(config: EvaluateConfig | TuneConfig) -> dict[str, Any]:
    """Return the tags of a run that describe its tasks."""
    options = config.sampler.options
    shape = {name: options[name] for name in ("way", "shot", "query") if name in options}
    return {"sampler": config.sampler.name, **shape}


def evaluation(
    configs: Sequence[EvaluateConfig],
    store: Store,
    tracker: Tracker,
    *,
    progress: Progress = quiet,
    force: bool = False,
    parent: Parent | None = None,
    failures: Failures | None = None,
) -> list[Result]:
    """Return the result of each config, in order; finished ones are taken from the cache.

    Configs with `tuning` are tuned first, unless they are. Strategies on the same tasks share the gathered features.
    Each config has a run of its own. If a strategy fails, the others are evaluated and recorded before its error is
    raised.

    Args:
        force: evaluate again, even if the result is in the cache; tunings are not repeated.
        parent: the runs become its children.
        failures: list to which failed strategies are appended, with the names of their runs; the results are those of
            the other strategies. If it is None, the first error is raised.

    Raises:
        InputError: wrong values, an audit that a strategy does not support, or tasks that the classes cannot give;
            raised before any training.
    """
    from runs.stages.tuning import find_tuned, tune

    work = Workspace(store, tracker, progress, force)
    tuned = [find_tuned(one.tuning_config(), store, tracker) if one.tuned else None for one in configs]
    missing = [i for i, config in enumerate(configs) if config.tuned and tuned[i] is None]
    check([configs[i] for i in missing], store, tracker, progress)
    for i in missing:
        tuned[i] = tune(configs[i].tuning_config(), store, tracker, progress=progress).tuned
    for strategy in dict.fromkeys(short(config.strategy) for config in configs if config.tuning and not config.tuned):
        progress.note(f"there is nothing to tune for {strategy}: evaluated as it is")
    stages = stages_of(configs, tuned, parent)
    results, failed = execute(stages, work, check=lambda batches: preflight(batches, work))
    if failures is not None:
        failures += failed
    elif failed:
        raise failed[0][1]
    return [dataclasses.replace(results[stage.key], config=stage.asked) for stage in stages if stage.key in results]


def check(configs: Sequence[EvaluateConfig], store: Store, tracker: Tracker, progress: Progress = quiet) -> None:
    """Check, as far as possible before hours of work, that these configs can be evaluated.

    Raises:
        InputError: as `evaluation`.
    """
    batches: dict[Hashable, list[EvaluationStage]] = {}
    for stage in stages_of(configs, [None] * len(configs)):
        batches.setdefault(stage.batch, []).append(stage)
    preflight(list(batches.values()), Workspace(store, tracker, progress))


def stages_of(
    configs: Sequence[EvaluateConfig], tuned: Sequence[Tuned | None], parent: Parent | None = None
) -> list[EvaluationStage]:
    """Return the stages of configs with their tuned values, after a check of the strategies.

    Raises:
        InputError: what is no strategy, an audit that a strategy does not support, or features without a base mean.
    """
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
