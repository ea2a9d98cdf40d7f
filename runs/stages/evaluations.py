"""Stage three: strategies on tasks; each config has a run of its own."""

import dataclasses
import functools
import shutil
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from clustering.foundation.progress import Progress, quiet
from fsl.evaluation.scores import Evaluation
from runs.cache import Store
from runs.config.configs import EvaluateConfig
from runs.config.overrides import spell, write
from runs.record.unrecorded import Made
from runs.stages.banks import features, pictures
from runs.stages.given_features import check_transform
from runs.stages.lineage import Lineage, Lineages, common_tags, evaluate_name, recipe, short
from runs.stages.preflight import preflight, tasks_of
from runs.stages.results import PER_TASK, Result, Tuned, recorded_result
from runs.stages.stage import Begun, Stage, Workspace, execute
from runs.storage.locks import Say
from runs.track import PARENT, Tracker

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
        asked: the config before the tuning.
        lineage: lineage of the config.
        parent: parent of its run.
        tuned: the tuned values; None if there is nothing to tune.
    """

    kind, noun, file = "evaluation", "the evaluation", PER_TASK
    load = staticmethod(Evaluation.load)

    asked: EvaluateConfig
    lineage: Lineage
    parent: Parent | None
    tuned: Tuned | None

    @functools.cached_property
    def identity(self) -> str:
        return self.lineage.evaluation(self.asked)

    @functools.cached_property
    def config(self) -> EvaluateConfig:
        """The config with the tuned values."""
        return self.asked.settled(self.tuned.values if self.tuned else {})

    @property
    def experiment(self) -> str:
        return self.parent.experiment if self.parent else f"evaluate/{short(self.config.benchmark)}"

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
    def chosen(self) -> dict[str, Any]:
        """The tuned values, by key."""
        flat = self.config.flat()
        return {f"strategy.{field}": flat[f"strategy.{field}"] for field in self.asked.strategy.grids}

    @property
    def together(self) -> Hashable:
        return batch_key(self.config, self.lineage)

    @property
    def params(self) -> dict[str, Any]:
        """The values used, and the values from which the tuned ones were chosen."""
        grids = {f"tuning.{field}": write(grid) for field, grid in self.asked.strategy.grids.items()}
        return self.config.flat() | grids

    @property
    def tags(self) -> dict[str, str]:
        """Tags that identify the groups of the run."""
        parent = {PARENT: self.parent.run_id} if self.parent else {}
        tuned = {"tuning_identity": self.tuned.identity, "tuning_run": self.tuned.run_id} if self.tuned else {}
        return parent | tuned

    def prepare(self, work: Workspace) -> EvaluationInputs:
        config, (store, tracker, progress, _), lineage = self.config, work, self.lineage
        # The network is first: if it has to be trained, the features are computed with its weights.
        shown = None
        if config.needs_images:
            shown = pictures(config, store, tracker, progress=progress, lineage=lineage)
        return features(config, config.split, store, tracker, progress=progress, lineage=lineage), shown

    def kept(self, prepared: EvaluationInputs, work: Workspace) -> Made[Evaluation] | None:
        kept, (bank, _) = super().kept(prepared, work), prepared
        if kept is None or (kept.facts["features"], kept.facts["chosen"]) != (bank.fingerprint(), _texts(self.chosen)):
            return None
        seconds = float(kept.facts["seconds_per_task"])
        return Made(dataclasses.replace(kept.content, seconds_per_task=seconds), kept.facts)

    def begin(self, prepared: EvaluationInputs, work: Workspace) -> Begun:
        config, lineage, (bank, _) = self.config, self.lineage, prepared
        strategy, target = config.strategy.kind, lineage.target[1] if lineage.target else ""
        run = work.tracker.start(
            self.experiment,
            self.name,
            stage=self.kind,
            identity=self.identity,
            params=self.params,
            config=self.asked.to_yaml(),
            tags=common_tags(config, lineage)
            | self.tags
            | {
                "recipe": recipe(self.asked, lineage.source, target),
                "strategy": short(config.strategy),
                "sampler": config.sampler.name,
                **{name: config.sampler.options[name] for name in TASK_TAGS if name in config.sampler.options},
                "split": config.split,
                "checkpoint": bank.provenance.get("checkpoint", ""),
                "features": bank.fingerprint(),
                "transductive": getattr(strategy, "transductive", ""),
                "assumes_balance": getattr(strategy, "assumes_balance", ""),
            },
        )
        return Begun(run)

    @classmethod
    def run_together(
        cls, batch: Sequence[tuple[Self, Begun]], prepared: EvaluationInputs, work: Workspace
    ) -> Iterator[Made[Evaluation] | Exception]:
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
            if label in failed:
                yield failed[label]
                continue
            seconds = found[label].seconds_per_task
            about = {"features": bank.fingerprint(), "chosen": _texts(stage.chosen), "seconds_per_task": seconds}
            yield Made(found[label], about)

    def _unfinished(self, bank: "FeatureBank", work: Workspace) -> "Unfinished":
        """Return the intermediate results of an interrupted evaluation on these features."""
        from fsl.evaluation.unfinished import Unfinished

        folder = work.store.partial("evaluations", self.identity, fresh=work.force)
        found = Unfinished(folder / "tasks.safetensors", bank.fingerprint())
        if found.done:
            work.progress.note(f"{self.name}: going on after {found.done:,} tasks")
        return found

    def record(self, made: Made[Evaluation], begun: Begun, work: Workspace) -> None:
        found, tasks = made.content, len(made.content.accuracies)
        counts = {"seconds": found.seconds_per_task * tasks, "tasks": tasks}
        begun.run.log(metrics=found.metrics() | counts, tags={"interval": f"over {found.units}"})

    def result(self, made: Made[Evaluation], begun: Begun, work: Workspace) -> Result:
        return Result(
            **vars(made.content),
            config=self.asked,
            identity=self.identity,
            run_id=begun.run.run_id,
            reused=False,
            tuned=self.tuned,
        )

    def close(self, made: Made[Evaluation], begun: Begun, work: Workspace) -> None:
        super().close(made, begun, work)
        shutil.rmtree(work.store.cache("evaluations") / f"{self.identity}.partial", ignore_errors=True)

    def recorded(self, tracker: Tracker, say: Say) -> Result | None:
        parent = self.parent.run_id if self.parent else None
        run = tracker.find(self.experiment, self.identity, parent=parent) if tracker.exists() else None
        if run is None:
            return None
        if not self.lineage.is_of_checkpoint(run.data.tags, tracker.store.peek):
            say(f"{self.name} was evaluated with an earlier checkpoint: evaluating it again")
            return None
        if any(run.data.params.get(key) != value for key, value in _texts(self.chosen).items()):
            say(f"{self.name} was evaluated with values of an earlier tuning: evaluating it again")
            return None
        run_id = run.info.run_id
        try:
            data, place = run.data, run.info.artifact_uri
            return recorded_result(tracker, run_id, data.metrics, place, self.asked, self.identity, self.tuned)
        except (ValueError, KeyError) as error:
            say(f"{self.name}: {PER_TASK} of run {run_id} is no longer whole ({error}): evaluating it again")
            return None


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
    """Return the result of each config, in order; finished ones are taken from the record.

    Strategies on the same tasks share the gathered features. Each config has a run of its own. If a strategy fails,
    the others are evaluated and recorded before its error is raised.

    Args:
        force: evaluate again, even if the result is in the record.
        tuned: the tuned values of each config; None for a config without tuning.
        parent: only its children count as finished, and new runs become its children.
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
    made = [stage for stage in stages if stage.identity in results]
    return [dataclasses.replace(results[stage.identity], config=stage.asked) for stage in made]


def check(configs: Sequence[EvaluateConfig], store: Store, tracker: Tracker, progress: Progress = quiet) -> None:
    """Check, as far as possible before hours of work, that these configs can be evaluated.

    Raises:
        InputError: as `evaluation`.
    """
    batches: dict[Hashable, list[EvaluationStage]] = {}
    for stage in _stages(configs, [None] * len(configs), None):
        batches.setdefault(stage.together, []).append(stage)
    _preflight(list(batches.values()), Workspace(store, tracker, progress))


def _stages(
    configs: Sequence[EvaluateConfig], tuned: Sequence[Tuned | None], parent: Parent | None
) -> list[EvaluationStage]:
    from fsl.evaluation.audits import check_audits
    from fsl.evaluation.episodic import check_strategy

    lineages, stages = Lineages(), []
    for config, chosen in zip(configs, tuned, strict=True):
        strategy = next(config.strategy.points()).build()
        check_strategy(config.strategy.name, strategy)
        check_audits(config.audit, config.strategy.name, strategy)
        if config.features is not None:
            check_transform(strategy, config.strategy.name, config.feature_files, config.split)
        stages.append(EvaluationStage(config, lineages.of(config), parent, chosen))
    return stages


def _preflight(batches: Sequence[Sequence[EvaluationStage]], work: Workspace) -> None:
    asked = [([stage.config for stage in batch], batch[0].lineage) for batch in batches]
    preflight(asked, work.store, work.tracker, work.progress)


def _texts(values: Mapping[str, Any]) -> dict[str, str]:
    return {key: str(value) for key, value in values.items()}
