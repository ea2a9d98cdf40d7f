"""Jobs of many configs: what is missing from the cache, and the functions that compute it, in any process."""

import functools
import os
import signal
import socket
import sys
import threading
import time
import warnings
from collections.abc import Hashable, Sequence
from contextlib import chdir, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from clustering.foundation.errors import InputError
from clustering.foundation.progress import Progress, quiet
from runs.cache import Store
from runs.config.configs import ClusterConfig, EvaluateConfig, FairConfig, RunConfig, TuneConfig
from runs.console.endings import explain
from runs.plan import PlannedStage, Planner, arranged
from runs.record.address import ENVIRONMENT, RecordUnreachable
from runs.track import Tracker

GRACE = 10.0  # seconds for an interrupted job to mark its runs
_ALONE = threading.Lock()  # jobs of one process share the working folder, torch's threads and the closed splits


@dataclass(frozen=True)
class Job:
    """Configs of one verb that one process computes together.

    Attributes:
        name: name of the job in messages.
        configs: the configs.
        results: the results folder.
        uri: MLflow's tracking URI; None if the record is in the results folder.
        folder: working folder of the command, to which relative paths refer.
    """

    name: str
    configs: tuple[Any, ...]
    results: str
    uri: str | None = None
    folder: str = ""


class Failure(NamedTuple):
    """A job or config that failed: its name, the message, and the exit code."""

    name: str
    why: str
    code: int

    def __str__(self) -> str:
        return f"{self.name}: {self.why}"


@dataclass
class Outcome:
    """What jobs did.

    Attributes:
        computed: number of new results.
        reused: number of results that were in the cache.
        failures: what failed.
        notes: messages that were not shown while a job ran.
        not_started: jobs that were left out at the end of the time limit, or after a worker was killed.
    """

    computed: int = 0
    reused: int = 0
    failures: list[Failure] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    not_started: list[Job] = field(default_factory=list)

    @property
    def code(self) -> int:
        """The exit code of the first failure, or 0."""
        return self.failures[0].code if self.failures else 0


@dataclass(frozen=True)
class Missing:
    """The results that are not in the cache.

    Attributes:
        jobs: jobs that compute them.
        cached: configs whose results are in the cache.
        summary: the plan in one line.
        blocked: configs that cannot be run, such as those without images.
    """

    jobs: tuple[Job, ...]
    cached: tuple[RunConfig, ...]
    summary: str
    blocked: tuple[Failure, ...]

    @property
    def count(self) -> int:
        """Number of missing results."""
        return sum(len(job.configs) for job in self.jobs)


def missing(configs: Sequence[RunConfig], store: Store, tracker: Tracker) -> Missing:
    """Return the jobs that compute what is missing; evaluations on the same tasks are one job.

    Jobs that share an unfinished network or tuning wait for the first of them, so one of each comes first.
    """
    planner, steps = Planner(store), list[PlannedStage]()
    groups: dict[Hashable, list[RunConfig]] = {}
    waits, begun = dict[Hashable, bool](), set[str]()
    blocked: dict[str, list[str]] = {}
    cached = []
    for config in configs:
        try:
            planned = planner.steps(config)
        except InputError as error:
            blocked.setdefault(str(error), []).append(name_of(config))
            continue
        if planned[-1].is_cached:
            cached.append(config)
            continue
        steps += planned
        group = _together(config, planned, planner)
        needs = {step.key for step in planned[:-1] if not step.is_cached}
        waits.setdefault(group, bool(needs & begun))
        begun |= needs
        groups.setdefault(group, []).append(config)
    where = (str(store.root), None if tracker.own else tracker.uri, os.getcwd())
    return Missing(
        tuple(
            Job(_name(groups[group]), tuple(groups[group]), *where) for group in sorted(groups, key=waits.__getitem__)
        ),
        tuple(cached),
        arranged(steps).summary,
        tuple(Failure(", ".join(names), reason, 2) for reason, names in blocked.items()),
    )


def _together(config: RunConfig, planned: Sequence[PlannedStage], planner: Planner) -> Hashable:
    """Return a value that is equal for configs of one job."""
    from runs.stages.evaluations import batch_key

    if not isinstance(config, EvaluateConfig):
        return planned[-1].key
    # A tuning takes longer than the time that joint evaluation saves.
    tuning = [step.key for step in planned if step.stage == "tuning" and not step.is_cached]
    return (*batch_key(config, planner.lineages.of(config)), *tuning)


def name_of(config: RunConfig) -> str:
    """Return the name of a config's result in messages."""
    from runs.stages.lineage import cluster_name, evaluate_name

    if isinstance(config, (EvaluateConfig, TuneConfig)):
        return evaluate_name(config)
    assert isinstance(config, (ClusterConfig, FairConfig))
    return cluster_name(config)


def _name(configs: Sequence[RunConfig]) -> str:
    name = name_of(configs[0])
    return name if len(configs) == 1 else f"{len(configs)} strategies on{name[name.index(' ') :]}"


def compute(
    configs: Sequence[Any], store: Store, tracker: Tracker, *, progress: Progress, force: bool = False
) -> tuple[list[Any], list[tuple[str, Exception]]]:
    """Compute the results of configs of one verb, or reuse them.

    Returns:
        The results in order, without those that failed, and (name, error) of each that failed.
    """
    from fsl.machine import keep_freed_memory
    from runs.stages import pipeline

    keep_freed_memory()
    first, failed = configs[0], list[tuple[str, Exception]]()
    how: dict[str, Any] = {"store": store, "tracker": tracker, "progress": progress, "force": force}
    if isinstance(first, FairConfig):
        from runs.stages.fair.stage import fair_clustering

        paths, errors = fair_clustering(configs, **how)
        return list(paths), [(name_of(first), error) for error in errors]
    if isinstance(first, ClusterConfig):
        from runs.stages.clustering.stage import clustering

        return list(clustering(configs, **how)), []
    if isinstance(first, EvaluateConfig):
        return list(pipeline.evaluation(configs, **how, failures=failed)), failed
    one = pipeline.tune if isinstance(first, TuneConfig) else pipeline.checkpoint
    return [one(config, **how) for config in configs], []


def perform(job: Job, progress: Progress | None = None, is_worker: bool = False) -> tuple[Job, Outcome]:
    """Run a job. Failures are part of the outcome; only an interruption or an unreachable record is raised.

    Args:
        progress: shows messages; None: they are part of the outcome.
        is_worker: whether this process ends with the process of the command, its parent.
    """
    if is_worker:
        _end_with_parent()
    notes = _Notes()
    said, failed, results = progress or notes, list[tuple[str, Exception]](), list[Any]()
    with _ALONE, warnings.catch_warnings():
        if progress is None and not sys.warnoptions:
            warnings.simplefilter("ignore")  # as in the command
        try:
            _check_place(job)
            if job.folder not in sys.path:
                sys.path.append(job.folder)  # finds the plug-ins of a user
            store = Store(job.results)
            with chdir(job.folder) if Path(job.folder).is_dir() else nullcontext():
                tracker = Tracker(store, uri=job.uri, say=said.note)
                results, failed = compute(job.configs, store, tracker, progress=said)
        except RecordUnreachable:
            raise
        except Exception as error:
            failed = [(job.name, error)]
    reused = sum(result.reused for result in results)
    failures = [Failure(name, *explain(error)) for name, error in failed]
    return job, Outcome(len(results) - reused, reused, failures, notes.notes)


def _check_place(job: Job) -> None:
    """Check that this process sees the results folder of the command and writes to its record."""
    process = f"process {os.getpid()} on {socket.gethostname()}"
    if not Path(job.results).is_dir():
        raise InputError(
            f"{process} cannot access the results folder {job.results}; set results= to a folder that all workers "
            "access under the same path"
        )
    if job.uri is None and os.environ.get(ENVIRONMENT):
        raise InputError(f"{process} has {ENVIRONMENT}, but the command does not; set it for both or neither")


class _Notes:
    """A `Progress` that keeps its messages."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)

    track = staticmethod(quiet.track)


@functools.cache
def _end_with_parent() -> None:
    """Interrupt this process, as by Ctrl-C, when it is terminated or when the command's process is gone."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(GRACE)
        os._exit(1)  # joblib's worker would wait for the next job

    threading.Thread(target=watch, daemon=True).start()
