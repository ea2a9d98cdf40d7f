"""Stage three: strategies on tasks, each config a run of its own."""

import contextlib
import dataclasses
import json
import math
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from clustering.errors import InputError
from fsl.progress import Progress, quiet
from runs.banks import BANK, features
from runs.config import EvaluateConfig
from runs.lineage import Lineage, common_tags, evaluate_name, images_of, short
from runs.store import Store
from runs.tracked_run import TrackedRun
from runs.tracking import Tracker

if TYPE_CHECKING:
    from fsl.features import FeatureBank
    from fsl.samplers.sampler import Sampler
    from fsl.tasks import TaskSource

PER_TASK = "per_task.npz"
TASK_TAGS = ("way", "shot", "query")


@dataclass(frozen=True, eq=False)
class Result:
    """One evaluated config.

    Attributes:
        config: what was evaluated.
        identity: of the evaluation.
        run_id: the MLflow run that holds it.
        reused: it was there already.
        accuracies: (T,) fraction of right labels, one per task.
        iterations: (T,) steps of the strategy, one per task.
        seconds_per_task: measured when it was computed.
        trace: (steps, b) objective of the first b tasks, NaN after a task has stopped, or None.
        best_permutation: (T,) audit, see `fsl.audits`; None unless asked for.
    """

    config: EvaluateConfig
    identity: str
    run_id: str
    reused: bool
    accuracies: NDArray[np.float64]
    iterations: NDArray[np.int64]
    seconds_per_task: float
    trace: NDArray[np.floating[Any]] | None = None
    best_permutation: NDArray[np.float64] | None = None

    @property
    def accuracy(self) -> float:
        """Mean over tasks, a fraction."""
        return float(self.accuracies.mean(dtype=np.float64))

    @property
    def ci95(self) -> float:
        """Half width of the 95 % interval of the mean over tasks."""
        return 1.96 * float(self.accuracies.std(dtype=np.float64)) / math.sqrt(len(self.accuracies))


@dataclass(frozen=True)
class _Job:
    """One config on its way through `evaluation`."""

    config: EvaluateConfig
    lineage: Lineage
    identity: str

    @property
    def experiment(self) -> str:
        return f"evaluate/{short(self.config.benchmark)}"

    @property
    def shape(self) -> tuple[Any, ...]:
        """Configs of equal shape have the same features and the same tasks."""
        config = self.config
        sampler = (config.sampler.plugin, *config.sampler.options.items())
        tasks = (sampler, config.count(), config.seed, config.audit)
        return (self.lineage.bank(config.split), *tasks, config.batch, config.device)


def evaluation(
    configs: Sequence[EvaluateConfig],
    store: Store,
    tracker: Tracker,
    *,
    progress: Progress = quiet,
    force: bool = False,
) -> list[Result]:
    """The result of each config, in order; finished ones are taken from the record.

    Strategies on the same tasks share the gathered features. Each config is a run of its own.

    Args:
        force: evaluate again, even what is in the record.

    Raises:
        InputError: wrong values, and tasks that the classes cannot give, before anything is trained.
    """
    jobs = _jobs(configs)
    results: dict[str, Result] = {}
    if not force:
        for job in jobs:
            if job.identity not in results and (found := _finished(job, store, tracker, progress)):
                results[job.identity] = found
    waiting = {job.identity: job for job in jobs if job.identity not in results}
    if results:
        progress.note(f"reused {len(results)}, running {len(waiting)}")
    if waiting:
        tracker.bury()
    groups: dict[tuple[Any, ...], list[_Job]] = {}
    for job in waiting.values():
        groups.setdefault(job.shape, []).append(job)
    for group in groups.values():
        _check_tasks(group[0], store, progress)
    for group in groups.values():
        results |= _evaluate(group, store, tracker, progress, force)
    return [dataclasses.replace(results[job.identity], config=job.config) for job in jobs]


def _jobs(configs: Sequence[EvaluateConfig]) -> list[_Job]:
    known: dict[str, Lineage] = {}  # of one training there are many evaluations
    jobs = []
    for config in configs:
        key = json.dumps(config.training_config().flat(), sort_keys=True)
        lineage = known[key] if key in known else known.setdefault(key, Lineage.of(config))
        jobs.append(_Job(config, lineage, lineage.evaluation(config)))
    return jobs


def _check_tasks(job: _Job, store: Store, progress: Progress) -> None:
    """That the tasks can be drawn from the split: asked before hours of training."""
    from fsl.features import FeatureBank

    entry = store.peek("features", job.lineage.bank(job.config.split))
    if entry:
        with contextlib.suppress(InputError):  # a damaged bank is made again later
            bank = FeatureBank.load(entry.path / BANK)
            tasks_of(job.config, bank)
            return
    tasks_of(job.config, images_of(job.lineage.benchmark, job.config.split, store, progress))


def tasks_of(config: EvaluateConfig, split: Any) -> "TaskSource":
    """The tasks of a config on a split (a feature bank or an image set).

    Raises:
        InputError: tasks that the split cannot give, or fewer than asked for.
    """
    sampler = cast("Sampler", config.sampler.build())
    try:
        tasks = sampler.tasks(split.labels, config.seed, split.class_names)
        tasks.blocks(config.count(tasks.limit))
    except InputError as error:
        raise InputError(f"sampler={config.sampler.name} on the {config.split} classes: {error}") from error
    return tasks


def _evaluate(group: list[_Job], store: Store, tracker: Tracker, progress: Progress, force: bool) -> dict[str, Result]:
    """Evaluate configs of one shape together."""
    config = group[0].config
    bank = features(config, config.split, store, tracker, progress=progress)
    with contextlib.ExitStack() as stack:
        # In the order of identities: two processes with overlapping groups cannot wait for each other.
        for job in sorted(group, key=lambda job: job.identity):
            what = f"the evaluation of {evaluate_name(job.config)}"
            stack.enter_context(store.lock("evaluation", job.identity, what, progress.note))
        results: dict[str, Result] = {}
        for job in group:
            tracker.bury(job.experiment, job.identity)
            if not force and (found := _finished(job, store, tracker, progress)):
                results[job.identity] = found  # another process was at it
        todo = [job for job in group if job.identity not in results]
        return results | (_run(todo, bank, store, tracker, progress) if todo else {})


def _run(
    jobs: list[_Job], bank: "FeatureBank", store: Store, tracker: Tracker, progress: Progress
) -> dict[str, Result]:
    from fsl.evaluation import evaluate
    from fsl.machine import resolve_device

    config = jobs[0].config
    names = [job.config.strategy.name for job in jobs]
    labels = [name if names.count(name) == 1 else f"{name} {i}" for i, name in enumerate(names, 1)]
    with contextlib.ExitStack() as stack:
        features_tag = bank.fingerprint()
        runs = [stack.enter_context(_start(job, bank, features_tag, tracker).guarded()) for job in jobs]
        tasks = tasks_of(config, bank)
        found = evaluate(
            {label: job.config.strategy.build() for label, job in zip(labels, jobs, strict=True)},
            bank,
            tasks,
            config.count(tasks.limit),
            batch=config.batch,
            device=resolve_device(config.device),
            progress=progress,
            audit=config.audit == "best_permutation",
        )
        results = {}
        for label, job, run in zip(labels, jobs, runs, strict=True):
            done = found[label]
            results[job.identity] = Result(
                job.config,
                job.identity,
                run.run_id,
                False,
                done.accuracies.numpy(),
                done.iterations.numpy(),
                done.seconds_per_task,
                None if done.trace is None else done.trace.numpy(),
                None if done.best_permutation is None else done.best_permutation.numpy(),
            )
            _record(run, results[job.identity], store)
    return results


def _start(job: _Job, bank: "FeatureBank", fingerprint: str, tracker: Tracker) -> TrackedRun:
    config = job.config
    strategy = type(config.strategy.build())
    return tracker.start(
        job.experiment,
        evaluate_name(config),
        stage="evaluation",
        identity=job.identity,
        params=config.flat(),
        config=config.to_yaml(),
        tags=common_tags(config, job.lineage)
        | {
            "strategy": config.strategy.name,
            "sampler": config.sampler.name,
            **{name: config.sampler.options[name] for name in TASK_TAGS if name in config.sampler.options},
            "split": config.split,
            "checkpoint": bank.provenance.get("checkpoint", ""),
            "features": fingerprint,
            "transductive": getattr(strategy, "transductive", ""),
            "assumes_balance": getattr(strategy, "assumes_balance", ""),
        },
    )


def _record(run: TrackedRun, result: Result, store: Store) -> None:
    """Everything of an evaluation, then the mark."""
    with store.watched(), tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / PER_TASK
        arrays = {"accuracies": result.accuracies, "iterations": result.iterations}
        if result.trace is not None:
            arrays["trace"] = result.trace
        if result.best_permutation is not None:
            arrays["best_permutation"] = result.best_permutation
        np.savez_compressed(path, **arrays)  # type: ignore[arg-type]
        run.artifact(path)
    best = result.best_permutation
    audited = {} if best is None else {"audit_best_permutation": float(best.mean())}
    run.log(
        metrics={
            "accuracy": result.accuracy,
            "accuracy_ci95": result.ci95,
            "seconds_per_task": result.seconds_per_task,
            "iterations_mean": float(result.iterations.mean()),
            "seconds": result.seconds_per_task * len(result.accuracies),
            "tasks": len(result.accuracies),
            **audited,
        }
    )
    run.finish()


def _finished(job: _Job, store: Store, tracker: Tracker, progress: Progress) -> Result | None:
    """The evaluation as the record has it; None where it is missing, not whole, or of another checkpoint."""
    run = tracker.find(job.experiment, job.identity) if tracker.exists() else None
    if run is None:
        return None
    trained = store.peek("checkpoints", job.lineage.checkpoint)
    if trained and run.data.tags.get("checkpoint") != trained.fingerprint:
        progress.note(f"{evaluate_name(job.config)} was evaluated with an earlier checkpoint: evaluating it again")
        return None
    with tempfile.TemporaryDirectory() as folder:
        path = tracker.download(run.info.run_id, PER_TASK, Path(folder))
        try:
            if path is None:
                raise ValueError("missing")
            with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
                accuracies, iterations, trace, best = (
                    arrays["accuracies"],
                    arrays["iterations"],
                    arrays.get("trace"),
                    arrays.get("best_permutation"),
                )
            seconds = float(run.data.metrics["seconds_per_task"])
            if not np.isclose(accuracies.mean(dtype=np.float64), run.data.metrics["accuracy"]):
                raise ValueError("changed")
        except Exception as error:  # zipfile, numpy and the artefact stores each raise their own
            progress.note(
                f"{evaluate_name(job.config)}: {PER_TASK} of run {run.info.run_id} is no longer whole "
                f"({error}): evaluating it again"
            )
            return None
    return Result(job.config, job.identity, run.info.run_id, True, accuracies, iterations, seconds, trace, best)
