"""Stage three: strategies on tasks; each config has a run of its own."""

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from fsl.evaluation.scores import Evaluation
from runs.cache import Entry, raised
from runs.config.configs import EvaluateConfig, TuneConfig
from runs.config.overrides import spell
from runs.record.tracked_run import TrackedRun
from runs.stages.banks import bank_of_split, pictures
from runs.stages.given_features import check_transform
from runs.stages.lineage import Lineage, Lineages, common_tags, evaluate_name, revisions_of, short
from runs.stages.preflight import preflight, tasks_of
from runs.stages.results import PER_TASK, Result, Tuned
from runs.stages.stage import Computed, Failures, Stage, Workspace, execute
from runs.tables.keys import cell_keys

if TYPE_CHECKING:
    from fsl.features.bank import FeatureBank
    from fsl.features.pictures import Pictures


class Parent(NamedTuple):
    """The parent run of evaluations, in its experiment; without a parent, they are in `evaluate/<benchmark>`."""

    experiment: str  # name of the run's experiment
    run_id: str  # id of the run
    fields: tuple[str, ...]  # fields of the strategy that differ between the children and form their names


def batch_key(config: EvaluateConfig, lineage: Lineage) -> tuple[Any, ...]:
    """Return a key that is equal for configs with the same features and tasks, which are evaluated together.

    A config that trains a network on each task is evaluated alone, task by task.
    """
    sampler = (config.sampler.plugin, *config.sampler.options.items())
    tasks = (sampler, config.count(), config.seed, config.base_mean, config.audit)
    alone = lineage.evaluation(config) if config.needs_images else ""
    return (lineage.bank(config.split), *tasks, config.batch, config.device, alone)


@dataclass(frozen=True, kw_only=True)
class EvaluationStage(Stage):
    """One config whose strategy is evaluated.

    Attributes:
        config: the config with the tuned values; `asked` is that before the tuning.
    """

    kind, artifacts, form = "evaluation", (PER_TASK,), Evaluation

    lineage: Lineage  # lineage of the config
    label: str  # the name of the strategy, or the values that distinguish it from the other children
    tuned: Tuned | None  # the tuned values; None if there is nothing to tune

    @classmethod
    def of(
        cls, asked: EvaluateConfig, lineage: Lineage, tuned: Tuned | None = None, parent: Parent | None = None
    ) -> "EvaluationStage":
        """Return the stage of a config with its tuned values, below a parent run."""
        config = asked.settled(tuned.values if tuned else {})
        strategy, kind = config.strategy, config.strategy.kind
        label = spell({field: strategy.options[field] for field in parent.fields}) if parent else short(strategy)
        tags = {
            **common_tags(config, lineage),
            **({"tuning_key": tuned.key, "tuning_run": tuned.run_id} if tuned else {}),
            "revisions": raised(revisions_of(asked)),
            "cell": cell_keys(asked),
            "strategy": short(strategy),
            **task_tags(config),
            "split": config.split,
            "transductive": getattr(kind, "transductive", ""),
            "assumes_balance": getattr(kind, "assumes_balance", ""),
        }
        return cls(
            config=config,
            asked=asked,
            key=lineage.evaluation(asked),
            experiment=parent.experiment if parent else f"evaluate/{short(config.benchmark)}",
            name=f"{label} {config.split}" if parent else evaluate_name(config),
            tags=tags,
            batch=batch_key(config, lineage),
            parent_run=parent.run_id if parent else "",
            lineage=lineage,
            label=label,
            tuned=tuned,
        )

    def prepare(self, work: Workspace) -> "tuple[FeatureBank, Pictures | None]":
        """Return the features of the classes and, for strategies that need them, their images with the network."""
        work = work._replace(force=False)  # a training is not repeated
        # The network is first: if it has to be trained, the features are computed with its weights.
        shown = pictures(self.config, self.lineage, work) if self.config.needs_images else None
        return bank_of_split(self.config, self.config.split, self.lineage, work), shown

    @classmethod
    def compute_batch(
        cls, batch: Sequence[tuple[Self, TrackedRun]], prepared: "tuple[FeatureBank, Pictures | None]", work: Workspace
    ) -> Iterator[Computed | Exception]:
        from clustering.foundation.devices import resolve_device
        from fsl.evaluation.episodic import evaluate

        stages, (bank, shown) = [stage for stage, _ in batch], prepared
        first, names = stages[0], [stage.label for stage in stages]
        labels = [name if names.count(name) == 1 else f"{name} {i}" for i, name in enumerate(names, 1)]
        config, failed = first.config, dict[str, Exception]()
        tasks = tasks_of(config, bank)
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
        )
        for label, stage in zip(labels, stages, strict=True):
            yield failed[label] if label in failed else stage._computed(found[label], bank, work)

    def _computed(self, found: Evaluation, bank: "FeatureBank", work: Workspace) -> Computed:
        store, split, tasks = work.store, self.config.split, len(found.accuracies)
        used = [*self.lineage.made_of(split), *([f"tuning/{self.tuned.key}"] if self.tuned else [])]
        trained = Entry(store.cache("checkpoint") / self.lineage.checkpoint, "")
        training = trained.noted_run(work.tracker.note_of())[0] if self.lineage.checkpoint else ""
        tags = {
            "interval": f"over {found.units}",
            "checkpoint": bank.provenance.get("checkpoint", ""),
            "features": bank.fingerprint(),
            **({"training_run": training, "model": f"runs:/{training}/model"} if training else {}),
        }
        metrics = found.metrics() | {"seconds": found.seconds_per_task * tasks, "tasks": tasks}
        return Computed(found, metrics, tags, store.fingerprints(*used), self.lineage.data(split))

    def load(self, entry: Entry) -> Evaluation:
        found: Evaluation = super().load(entry)
        return dataclasses.replace(found, seconds_per_task=entry.metrics["seconds_per_task"])

    def result(self, content: Evaluation, entry: Entry, run_id: str) -> Result:
        own = {"config": self.asked, "key": self.key, "run_id": run_id, "reused": entry.reused, "tuned": self.tuned}
        return Result(**vars(content), **own)


def task_tags(config: EvaluateConfig | TuneConfig) -> dict[str, Any]:
    """Return the tags of a run that describe its tasks."""
    options = config.sampler.options
    shape = {name: options[name] for name in ("way", "shot", "query") if name in options}
    return {"sampler": config.sampler.name, **shape}


def evaluate_tuned(
    configs: Sequence[EvaluateConfig],
    tuned: Sequence[Tuned | None],
    work: Workspace,
    *,
    parent: Parent | None = None,
    failures: Failures | None = None,
) -> list[Result]:
    """Return the result of each config with its tuned values, as `runs.stages.pipeline.evaluation` does."""
    stages = _stages(configs, tuned, parent)
    results, failed = execute(stages, work, check=lambda batches: _preflight(batches, work))
    if failures is not None:
        failures += failed
    elif failed:
        raise failed[0][1]
    return [dataclasses.replace(results[stage.key], config=stage.asked) for stage in stages if stage.key in results]


def check(configs: Sequence[EvaluateConfig], work: Workspace) -> None:
    """Check, as far as possible before hours of work, that these configs can be evaluated; else raise InputError."""
    batches: dict[Any, list[EvaluationStage]] = {}
    for stage in _stages(configs, [None] * len(configs)):
        batches.setdefault(stage.batch, []).append(stage)
    _preflight(batches.values(), work)


def _preflight(batches: Iterable[Sequence[EvaluationStage]], work: Workspace) -> None:
    preflight([(batch[0].lineage, [stage.config for stage in batch]) for batch in batches], work)


def _stages(
    configs: Sequence[EvaluateConfig], tuned: Sequence[Tuned | None], parent: Parent | None = None
) -> list[EvaluationStage]:
    """Return the stages of configs with their tuned values, after a check of the strategies."""
    from fsl.episodes import check_strategy
    from fsl.evaluation.audits import check_audits

    lineages, stages = Lineages(), []
    for config, chosen in zip(configs, tuned, strict=True):
        name, strategy = config.strategy.name, next(config.strategy.points()).build()
        check_strategy(name, strategy)
        check_audits(config.audit, name, strategy)
        if config.features is not None:
            check_transform(strategy, name, config.feature_files, config.split)
        stages.append(EvaluationStage.of(config, lineages.of(config), chosen, parent))
    return stages
