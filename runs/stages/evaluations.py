"""Stage three: strategies on tasks, each config a run of its own."""

import contextlib
import dataclasses
import functools
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fsl.progress import Progress, quiet
from runs.config.configs import EvaluateConfig
from runs.config.overrides import spell, write
from runs.console.endings import explain
from runs.record.tracked_run import TrackedRun
from runs.record.tracking import PARENT, Tracker
from runs.record.unrecorded import Unrecorded
from runs.stages.banks import features, pictures
from runs.stages.given_features import check_transform
from runs.stages.lineage import Lineage, Lineages, common_tags, evaluate_name, recipe, short
from runs.stages.preflight import preflight, tasks_of
from runs.stages.results import PER_TASK, Result, Scores, Tuned, recorded_scores
from runs.storage.store import Store

if TYPE_CHECKING:
    from fsl.evaluation.episodic import Evaluation
    from fsl.evaluation.unfinished import Unfinished
    from fsl.features.bank import FeatureBank
    from fsl.features.pictures import Pictures

TASK_TAGS = ("way", "shot", "query")


@dataclass(frozen=True)
class Parent:
    """A run that evaluations are children of, in its experiment; else they are in `evaluate/<benchmark>`.

    Attributes:
        experiment: where the run is.
        run_id: its id.
        fields: of the strategy, that differ between the children and name them.
    """

    experiment: str
    run_id: str
    fields: tuple[str, ...]


@dataclass(frozen=True)
class _Job:
    """One config on its way through `evaluation`."""

    asked: EvaluateConfig
    lineage: Lineage
    identity: str
    parent: Parent | None
    tuned: Tuned | None

    @functools.cached_property
    def config(self) -> EvaluateConfig:
        """With the values that were chosen."""
        return self.asked.settled(self.tuned.values if self.tuned else {})

    @property
    def experiment(self) -> str:
        return self.parent.experiment if self.parent else f"evaluate/{short(self.config.benchmark)}"

    @property
    def label(self) -> str:
        """The strategy, or what tells it from the other children."""
        strategy = self.config.strategy
        if self.parent is None:
            return short(strategy)
        return spell({field: strategy.options[field] for field in self.parent.fields})

    @property
    def name(self) -> str:
        return f"{self.label} {self.config.split}" if self.parent else evaluate_name(self.config)

    @property
    def chosen(self) -> dict[str, Any]:
        """The values that were chosen, by key."""
        flat = self.config.flat()
        return {f"strategy.{field}": flat[f"strategy.{field}"] for field in self.asked.strategy.grids}

    @property
    def params(self) -> dict[str, Any]:
        """The values that were used, and beside them what they were chosen from."""
        grids = {f"tuning.{field}": write(grid) for field, grid in self.asked.strategy.grids.items()}
        return self.config.flat() | grids

    @property
    def tags(self) -> dict[str, str]:
        """What the run belongs to."""
        parent = {PARENT: self.parent.run_id} if self.parent else {}
        tuned = {"tuning_identity": self.tuned.identity, "tuning_run": self.tuned.run_id} if self.tuned else {}
        return parent | tuned


def shape(config: EvaluateConfig, lineage: Lineage) -> tuple[Any, ...]:
    """Configs of equal shape have the same features and the same tasks, and are evaluated together. One that trains a
    network on each task is evaluated alone, task by task."""
    sampler = (config.sampler.plugin, *config.sampler.options.items())
    tasks = (sampler, config.count(), config.seed_of_tasks, config.base_mean, config.audit)
    alone = lineage.evaluation(config) if config.needs_images else ""
    return (lineage.bank(config.split), *tasks, config.batch, config.device, alone)


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
    """The result of each config, in order; finished ones are taken from the record.

    Strategies on the same tasks share the gathered features. Each config is a run of its own. Where a strategy fails,
    the others are evaluated and recorded before its error is raised.

    Args:
        force: evaluate again, even what is in the record.
        tuned: what was chosen for each config; None for one where there is nothing to choose.
        parent: only its children count as finished, and what is run becomes its child.
        failures: takes the strategies that fail, by the names of their runs, and the results are those of the others;
            without it the first error is raised.

    Raises:
        InputError: before anything is trained, wrong values, an audit that a strategy cannot have, tasks that the
            classes cannot give.
    """
    jobs = _jobs(configs, tuned or [None] * len(configs), parent)
    tracker.bury()  # also where all is reused: what was killed may have been forced
    results: dict[str, Result] = {}
    if not force:
        for job in jobs:
            if job.identity in results or _unrecorded(job, store).pending(tracker):
                continue
            if found := _finished(job, store, tracker, progress):
                results[job.identity] = found
    waiting = {job.identity: job for job in jobs if job.identity not in results}
    if results:
        progress.note(f"reused {len(results)}, running {len(waiting)}")
    groups = _by_shape(waiting.values())
    _preflight(groups, store, tracker, progress)
    failed: list[tuple[str, Exception]] = []
    for group in groups:
        results |= _evaluate(group, store, tracker, progress, force, failed)
    if failures is not None:
        failures += failed
    elif failed:
        raise failed[0][1]
    made = [job for job in jobs if job.identity in results]
    return [dataclasses.replace(results[job.identity], config=job.asked) for job in made]


def check(configs: Sequence[EvaluateConfig], store: Store, tracker: Tracker, progress: Progress = quiet) -> None:
    """That these configs can be evaluated, as far as it can be known: to be asked before hours of work.

    Raises:
        InputError: as `evaluation`.
    """
    _preflight(_by_shape(_jobs(configs, [None] * len(configs), None)), store, tracker, progress)


def _jobs(configs: Sequence[EvaluateConfig], tuned: Sequence[Tuned | None], parent: Parent | None) -> list[_Job]:
    from fsl.evaluation.audits import check_audits
    from fsl.evaluation.episodic import check_strategy

    lineages, jobs = Lineages(), []
    for config, chosen in zip(configs, tuned, strict=True):
        strategy = next(config.strategy.points()).build()
        check_strategy(config.strategy.name, strategy)
        check_audits(config.audit, config.strategy.name, strategy)
        if config.features is not None:
            check_transform(strategy, config.strategy.name, config.features, config.split)
        lineage = lineages.of(config)
        jobs.append(_Job(config, lineage, lineage.evaluation(config), parent, chosen))
    return jobs


def _by_shape(jobs: Iterable[_Job]) -> list[list[_Job]]:
    groups: dict[tuple[Any, ...], list[_Job]] = {}
    for job in jobs:
        groups.setdefault(shape(job.config, job.lineage), []).append(job)
    return list(groups.values())


def _preflight(groups: Sequence[Sequence[_Job]], store: Store, tracker: Tracker, progress: Progress) -> None:
    preflight([(group[0].config, group[0].lineage) for group in groups], store, tracker, progress)


def _evaluate(
    group: list[_Job],
    store: Store,
    tracker: Tracker,
    progress: Progress,
    force: bool,
    failures: list[tuple[str, Exception]],
) -> dict[str, Result]:
    """Evaluate configs of one shape together; errors of their strategies are added to `failures`."""
    config = group[0].config
    # The network first: where it has to be made, the features are of that one.
    shown = pictures(config, store, tracker, progress=progress) if config.needs_images else None
    bank = features(config, config.split, store, tracker, progress=progress)
    with contextlib.ExitStack() as stack:
        # In the order of identities: two processes with overlapping groups cannot wait for each other.
        for job in sorted(group, key=lambda job: job.identity):
            what = f"the evaluation of {job.name}"
            stack.enter_context(store.lock("evaluation", job.identity, what, progress.note))
        results: dict[str, Result] = {}
        for job in group:
            tracker.bury(job.experiment, job.identity)
            if kept := _record_kept(job, bank, store, tracker, progress, force):
                results[job.identity] = kept
            elif not force and (found := _finished(job, store, tracker, progress)):
                results[job.identity] = found  # another process was at it
        todo = [job for job in group if job.identity not in results]
        return results | (_run(todo, bank, shown, store, tracker, progress, failures, force) if todo else {})


def _run(
    jobs: list[_Job],
    bank: "FeatureBank",
    shown: "Pictures | None",
    store: Store,
    tracker: Tracker,
    progress: Progress,
    failures: list[tuple[str, Exception]],
    force: bool,
) -> dict[str, Result]:
    from fsl.evaluation.episodic import evaluate
    from fsl.training.machine import resolve_device

    config = jobs[0].config
    names = [job.label for job in jobs]
    labels = [name if names.count(name) == 1 else f"{name} {i}" for i, name in enumerate(names, 1)]
    with contextlib.ExitStack() as stack:
        features_tag = bank.fingerprint()
        runs = [stack.enter_context(_start(job, bank, features_tag, tracker).guarded()) for job in jobs]
        tasks = tasks_of(config, bank)
        failed: dict[str, Exception] = {}
        found = evaluate(
            {label: job.config.strategy.build() for label, job in zip(labels, jobs, strict=True)},
            bank,
            tasks,
            config.count(tasks.limit),
            batch=config.batch,
            device=resolve_device(config.device),
            progress=progress,
            audits=config.audit,
            failures=failed,
            pictures=shown,
            unfinished=_unfinished(jobs[0], features_tag, store, progress, force) if shown else None,
        )
        results: dict[str, Result] = {}
        made = []
        for label, job, run in zip(labels, jobs, runs, strict=True):
            if label in failed:
                run.stop("FAILED", f"{type(failed[label]).__name__}: {failed[label]}")
                progress.note(f"failed: {job.name}: {explain(failed[label])[0]}; the others are kept")
                failures.append((job.name, failed[label]))
                continue
            scores, seconds = _scores(found[label], bank), found[label].seconds_per_task
            results[job.identity] = _result(job, scores, run.run_id, seconds, reused=False)
            made.append((job, run, _keep(job, results[job.identity], features_tag, store, force)))
        for job, run, file in made:  # when all of them are kept: the record may be out of reach
            _record(job, run, results[job.identity], file, store)
    return results


def _unrecorded(job: _Job, store: Store) -> Unrecorded:
    return Unrecorded(store, "evaluation", job.identity)


def _keep(job: _Job, result: Result, features_tag: str, store: Store, force: bool) -> Path:
    """Write a result where it waits for its record."""
    about = {"features": features_tag, "chosen": _texts(job.chosen), "seconds_per_task": result.seconds_per_task}
    return _unrecorded(job, store).keep(PER_TASK, result.save, result.run_id, forced=force, **about)


def _record_kept(
    job: _Job, bank: "FeatureBank", store: Store, tracker: Tracker, progress: Progress, force: bool
) -> Result | None:
    """Record what was computed before and could not be recorded; None where there is none of these features."""
    kept = _unrecorded(job, store).find(PER_TASK, Scores.load, tracker, force=force)
    if kept is None:
        return None
    features_tag = bank.fingerprint()
    if (kept.facts["features"], kept.facts["chosen"]) != (features_tag, _texts(job.chosen)):
        return None
    progress.note(f"{job.name} was evaluated before and not recorded: recording it")
    with _start(job, bank, features_tag, tracker).guarded() as run:
        result = _result(job, kept.result, run.run_id, float(kept.facts["seconds_per_task"]), reused=False)
        _record(job, run, result, _keep(job, result, features_tag, store, bool(kept.facts["forced"])), store)
    return result


def _texts(values: Mapping[str, Any]) -> dict[str, str]:
    return {key: str(value) for key, value in values.items()}


def _unfinished(job: _Job, features_tag: str, store: Store, progress: Progress, force: bool) -> "Unfinished":
    """What an interrupted evaluation of a job on these features has found, to go on from."""
    from fsl.evaluation.unfinished import Unfinished

    folder = store.partial("evaluations", job.identity, fresh=force)
    found = Unfinished(folder / "tasks.safetensors", features_tag)
    if found.done:
        progress.note(f"{job.name}: going on after {found.done:,} tasks")
    return found


def _scores(found: "Evaluation", bank: "FeatureBank") -> Scores:
    """What was found, without torch."""
    return Scores(
        found.accuracies.numpy(),
        found.iterations.numpy(),
        found.classes,
        bank.class_names,
        None if found.query_right is None else found.query_right.numpy(),
        None if found.trace is None else found.trace.numpy(),
        {name: values.numpy() for name, values in found.audits.items()},
    )


def _result(job: _Job, scores: Scores, run_id: str, seconds: float, *, reused: bool) -> Result:
    return Result(
        **vars(scores),
        config=job.asked,
        identity=job.identity,
        run_id=run_id,
        reused=reused,
        seconds_per_task=seconds,
        tuned=job.tuned,
    )


def _start(job: _Job, bank: "FeatureBank", fingerprint: str, tracker: Tracker) -> TrackedRun:
    config = job.config
    strategy = config.strategy.kind
    return tracker.start(
        job.experiment,
        job.name,
        stage="evaluation",
        identity=job.identity,
        params=job.params,
        config=job.asked.to_yaml(),
        tags=common_tags(config, job.lineage)
        | job.tags
        | {
            "recipe": recipe(job.asked, job.lineage.source, job.lineage.target[1] if job.lineage.target else ""),
            "strategy": short(config.strategy),
            "sampler": config.sampler.name,
            **{name: config.sampler.options[name] for name in TASK_TAGS if name in config.sampler.options},
            "split": config.split,
            "checkpoint": bank.provenance.get("checkpoint", ""),
            "features": fingerprint,
            "transductive": getattr(strategy, "transductive", ""),
            "assumes_balance": getattr(strategy, "assumes_balance", ""),
        },
    )


def _record(job: _Job, run: TrackedRun, result: Result, file: Path, store: Store) -> None:
    """Everything of an evaluation, then the mark; then away with what was kept for it."""
    run.artifact(file)
    tasks = len(result.accuracies)
    run.log(
        metrics=result.metrics() | {"seconds": result.seconds_per_task * tasks, "tasks": tasks},
        tags={"interval": f"over {result.units}"},
    )
    run.finish()
    _unrecorded(job, store).drop()
    shutil.rmtree(store.cache("evaluations") / f"{job.identity}.partial", ignore_errors=True)


def _finished(job: _Job, store: Store, tracker: Tracker, progress: Progress) -> Result | None:
    """The evaluation as the record has it; None where it is missing, not whole, or of another checkpoint."""
    parent = job.parent.run_id if job.parent else None
    run = tracker.find(job.experiment, job.identity, parent=parent) if tracker.exists() else None
    if run is None:
        return None
    trained = store.peek("checkpoints", job.lineage.checkpoint)
    if trained and run.data.tags.get("checkpoint") != trained.fingerprint:
        progress.note(f"{job.name} was evaluated with an earlier checkpoint: evaluating it again")
        return None
    if any(run.data.params.get(key) != value for key, value in _texts(job.chosen).items()):
        progress.note(f"{job.name} was evaluated with values of an earlier tuning: evaluating it again")
        return None
    try:
        scores = recorded_scores(tracker, run.info.run_id, run.data.metrics["accuracy"], run.info.artifact_uri)
        seconds = float(run.data.metrics["seconds_per_task"])
    except (ValueError, KeyError) as error:
        progress.note(
            f"{job.name}: {PER_TASK} of run {run.info.run_id} is no longer whole ({error}): evaluating it again"
        )
        return None
    return _result(job, scores, run.info.run_id, seconds, reused=True)
