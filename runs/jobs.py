"""Jobs of many configs, as plain data: what is missing from the cache, and the function that computes a job."""

import os
import signal
import socket
import sys
import threading
import time
import warnings
from collections.abc import Sequence
from contextlib import chdir, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from clustering.foundation.errors import InputError
from clustering.foundation.progress import Progress, quiet
from runs.cache import Store
from runs.config.configs import SCHEMAS, ClusterConfig, EvaluateConfig, FairConfig, parse
from runs.console.endings import explain
from runs.plan import Planner, arranged, splits_of
from runs.record.address import ENVIRONMENT, RecordUnreachable
from runs.track import Tracker

Config = EvaluateConfig | ClusterConfig | FairConfig
GRACE = 10.0  # seconds for an interrupted job to mark its runs
_ALONE = threading.Lock()  # jobs of one process share the working folder, torch's threads and the closed splits


@dataclass(frozen=True)
class Job:
    """Configs that one process computes together; all fields are text or numbers.

    Attributes:
        name: name of the job in messages.
        verb: the verb of the configs.
        arguments: the command-line arguments of each config.
        needs: key of the training whose features it needs or, for a preparation, computes; or "".
        prepares: whether to stop after training and features.
        results: the results folder.
        uri: MLflow's tracking URI; None if the record is in the results folder.
        folder: working folder of the command, to which relative paths refer.
    """

    name: str
    verb: str
    arguments: tuple[tuple[str, ...], ...]
    needs: str = ""
    prepares: bool = False
    results: str = ""
    uri: str | None = None
    folder: str = ""


@dataclass(frozen=True)
class Failure:
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
        preparations: jobs that train networks and extract features.
        jobs: jobs that compute the results.
        count: number of missing results.
        cached: configs whose results are in the cache.
        summary: the plan in one line.
        blocked: configs that cannot be run, such as those without images.
    """

    preparations: tuple[Job, ...]
    jobs: tuple[Job, ...]
    count: int
    cached: tuple[Config, ...]
    summary: str
    blocked: tuple[Failure, ...]


def missing(configs: Sequence[Config], store: Store, tracker: Tracker) -> Missing:
    """Return the jobs that compute what is missing. Evaluations on the same tasks are one job."""
    from runs.stages.evaluations import batch_key
    from runs.stages.lineage import cluster_name, evaluate_name, train_name

    planner, steps = Planner(store), []
    groups: dict[tuple[Any, ...], list[Config]] = {}
    needs: dict[tuple[Any, ...], str] = {}
    blocked: dict[str, list[str]] = {}
    cached: list[Config] = []
    for config in configs:
        group: tuple[Any, ...]
        needed = ""
        try:
            if isinstance(config, EvaluateConfig):
                planned, lineage = planner.steps(config), planner.lineages.of(config)
                # A tuning takes longer than the time that joint evaluation saves.
                tuning = [step.key for step in planned if step.stage == "tuning" and not step.is_cached]
                group = (*batch_key(config, lineage), *tuning)
                if any(not step.is_cached for step in planned if step.stage not in ("tuning", "evaluation")):
                    needed = lineage.checkpoint
            else:
                planned = list(_points_plan(config, store).steps)
                group = (planned[0].key,)
        except InputError as error:
            name = evaluate_name(config) if isinstance(config, EvaluateConfig) else cluster_name(config)
            blocked.setdefault(str(error), []).append(name)
            continue
        if planned[-1].is_cached:
            cached.append(config)
            continue
        steps += planned
        groups.setdefault(group, []).append(config)
        needs[group] = needs.get(group) or needed
    uri, folder = None if tracker.own else tracker.uri, os.getcwd()

    def job(name: str, members: Sequence[Config], needed: str, *, prepares: bool = False) -> Job:
        verb = next(verb for verb, schema in SCHEMAS.items() if type(members[0]) is schema)
        arguments = tuple(tuple(config.arguments()) for config in members)
        return Job(name, verb, arguments, needed, prepares, str(store.root), uri, folder)

    preparations = []
    for needed in dict.fromkeys(filter(None, needs.values())):
        members = [groups[group][0] for group in groups if needs[group] == needed]
        name = f"features of {train_name(cast(EvaluateConfig, members[0]))}"
        preparations.append(job(name, members, needed, prepares=True))
    return Missing(
        tuple(preparations),
        tuple(job(_name(members), members, needs[group]) for group, members in groups.items()),
        sum(len(members) for members in groups.values()),
        tuple(cached),
        arranged(steps).summary,
        tuple(Failure(", ".join(names), reason, 2) for reason, names in blocked.items()),
    )


def _points_plan(config: ClusterConfig | FairConfig, store: Store) -> Any:
    if isinstance(config, FairConfig):
        from runs.stages.fair import stage as fair_stage

        return fair_stage.plan([config], store)
    from runs.stages.clustering import stage

    return stage.plan([config], store)


def _name(configs: Sequence[Config]) -> str:
    from runs.stages.lineage import cluster_name, evaluate_name, short

    first = configs[0]
    if not isinstance(first, EvaluateConfig):
        return cluster_name(first)
    name = evaluate_name(first)
    if len(configs) == 1:
        return name
    return name.replace(short(first.strategy), f"{len(configs)} strategies on", 1)


def perform(
    job: Job, progress: Progress | None = None, backend: str = "submitit", here: bool = False
) -> tuple[Job, Outcome]:
    """Run a job. Failures are part of the outcome; only an interruption or an unreachable record is raised.

    Args:
        progress: shows messages; None: they are part of the outcome.
        here: whether this is the process of the command.
    """
    notes = _Notes()
    outcome = Outcome(notes=notes.notes)
    if backend == "loky" and not here:
        _end_with_parent()
    with _ALONE, warnings.catch_warnings():
        if not here and not sys.warnoptions:
            warnings.simplefilter("ignore")  # as in the command
        try:
            _check_place(job)
            with chdir(job.folder) if Path(job.folder).is_dir() else nullcontext():
                _compute(job, progress or notes, outcome)
        except RecordUnreachable:
            raise
        except Exception as error:
            outcome.failures.append(Failure(job.name, *explain(error)))
    return job, outcome


def _compute(job: Job, progress: Progress, outcome: Outcome) -> None:
    from fsl.machine import keep_freed_memory
    from runs.stages.clustering.stage import clustering
    from runs.stages.evaluations import check
    from runs.stages.fair.stage import fair_clustering
    from runs.stages.pipeline import evaluation, features

    if job.folder not in sys.path:
        sys.path.append(job.folder)  # finds the plug-ins of a user
    keep_freed_memory()
    store = Store(job.results)
    tracker = Tracker(store, uri=job.uri, say=progress.note)
    configs: list[Any] = [one for words in job.arguments for one in parse(SCHEMAS[job.verb], words)]
    failed: list[tuple[str, Exception]] = []
    results: Sequence[Any] = []
    if job.prepares:
        wrong = []
        for config in configs:  # checked before hours of training
            try:
                check([config], store, tracker, progress)
            except InputError as error:
                wrong.append(error)
        if len(wrong) == len(configs):
            raise wrong[0]
        for config in configs:
            for split in splits_of(config):
                features(config, split, store, tracker, progress=progress)
    elif job.verb == "evaluate":
        results = evaluation(configs, store, tracker, progress=progress, failures=failed)
    elif job.verb == "cluster":
        results = clustering(configs, store, tracker, progress=progress)
    else:
        results, errors = fair_clustering(configs, store, tracker, progress=progress)
        failed = [(job.name, error) for error in errors]
    outcome.reused = sum(result.reused for result in results)
    outcome.computed = len(results) - outcome.reused
    outcome.failures += [Failure(name, *explain(error)) for name, error in failed]


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


def _end_with_parent(_started: list[bool] = []) -> None:  # noqa: B006 - once a process
    """Interrupt this process, as by Ctrl-C, when it is terminated or when the command's process is gone."""
    if _started or threading.current_thread() is not threading.main_thread():
        return
    _started.append(True)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(GRACE)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
