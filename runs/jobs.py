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
from contextlib import chdir
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

from clustering.foundation.errors import InputError
from clustering.foundation.progress import Progress, quiet
from runs.cache import Store
from runs.config.configs import ClusterConfig, EvaluateConfig, FairConfig, RunConfig, TuneConfig
from runs.console.endings import explain
from runs.plan import PlannedStage, Planner, in_order, summary
from runs.record.address import RecordUnreachable
from runs.storage.locks import Say
from runs.track import Tracker

GRACE = 10.0  # seconds for an interrupted job to mark its runs
_ALONE = threading.Lock()  # jobs of one process share the working folder, torch's threads and the closed splits
Failure = tuple[str, int]  # the message for a config that failed, with its name, and the exit code


@dataclass
class Batch:
    """Many configs: what is missing from the cache, and what becomes of it.

    Attributes:
        jobs: configs that one process computes together, by number; after `run_all`, those that were not run.
        cached: configs whose results are in the cache.
        summary: the plan in one line.
        failures: of configs that cannot be run, such as those without images, and of those that failed.
        computed: number of new results.
    """

    jobs: dict[int, list[Any]]
    cached: list[RunConfig]
    summary: str
    failures: list[Failure]
    computed: int = 0

    @property
    def names(self) -> list[str]:
        """A line for each job."""
        names = [(name_of(configs[0]), len(configs)) for configs in self.jobs.values()]
        return [f"  {name}" + (f", and {count - 1} more on its tasks" if count > 1 else "") for name, count in names]

    @property
    def count(self) -> int:
        """Number of missing results."""
        return sum(map(len, self.jobs.values()))

    @property
    def code(self) -> int:
        """The exit code of the first failure, or 0."""
        return self.failures[0][1] if self.failures else 0


class Place(NamedTuple):
    """Where jobs work: results folder, MLflow's tracking URI (empty if it is in that folder), and working folder of the
    command, to which relative paths refer."""

    results: str
    uri: str = ""
    folder: str = "."


def missing(configs: Sequence[RunConfig], store: Store) -> Batch:
    """Return the jobs that compute what is missing; evaluations on the same tasks are one job.

    Jobs that share an unfinished network or tuning wait for the first of them, so one of each comes first.
    """
    from runs.stages.evaluations import batch_key

    planner, steps = Planner(store), list[PlannedStage]()
    groups: dict[Hashable, list[RunConfig]] = {}
    waits, begun, cached = dict[Hashable, bool](), set[str](), list[RunConfig]()
    blocked: dict[str, list[str]] = {}
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
        group: Hashable = planned[-1].key
        if isinstance(config, EvaluateConfig):  # a tuning takes longer than the time that joint evaluation saves
            tuning = [step.key for step in planned if step.stage == "tuning" and not step.is_cached]
            group = (*batch_key(config, planner.lineages.of(config)), *tuning)
        needs = {step.key for step in planned[:-1] if not step.is_cached}
        waits.setdefault(group, bool(needs & begun))
        begun |= needs
        groups.setdefault(group, []).append(config)
    jobs = dict(enumerate(groups[group] for group in sorted(groups, key=waits.__getitem__)))
    failures = [(f"{', '.join(names)}: {reason}", 2) for reason, names in blocked.items()]
    return Batch(jobs, cached, summary(in_order(steps)), failures)


def name_of(config: Any) -> str:
    """Return the name of a config's result in messages."""
    from runs.stages.lineage import cluster_name, evaluate_name

    return cluster_name(config) if isinstance(config, (ClusterConfig, FairConfig)) else evaluate_name(config)


def recorded(config: Any, tracker: Tracker, say: Say) -> Any:
    """Return the result of a config from the cache; None, with a message, if there is no complete one."""
    if isinstance(config, ClusterConfig | FairConfig):
        from runs.stages.clustering.stage import stage_of

        return stage_of(config).find(tracker.store, tracker)
    from runs.stages import pipeline, tuning

    read: Any = pipeline.recorded_evaluation if isinstance(config, EvaluateConfig) else tuning.recorded_tuning
    return read(config, tracker, say)


def compute(
    configs: Sequence[Any], tracker: Tracker, progress: Progress, force: bool = False
) -> tuple[list[Any], list[tuple[str, Exception]]]:
    """Compute the results of configs of one verb, or reuse them.

    Returns:
        The results in order, without those that failed, and (name, error) of each that failed.
    """
    from fsl.machine import keep_freed_memory
    from runs.stages import pipeline

    keep_freed_memory()
    first, failed = configs[0], list[tuple[str, Exception]]()
    how: dict[str, Any] = {"store": tracker.store, "tracker": tracker, "progress": progress, "force": force}
    if isinstance(first, ClusterConfig | FairConfig):
        from runs.stages.clustering.stage import clustering

        return clustering(configs, **how, failures=failed), failed
    if isinstance(first, EvaluateConfig):
        return list(pipeline.evaluation(configs, **how, failures=failed)), failed
    one = pipeline.tune if isinstance(first, TuneConfig) else pipeline.checkpoint
    return [one(config, **how) for config in configs], []


def perform(
    number: int, configs: Sequence[Any], place: Place, progress: Progress | None = None, is_worker: bool = False
) -> tuple[int, int, list[Failure], list[str]]:
    """Run a job. Only an interruption or an unreachable record is raised.

    Args:
        number: its number.
        configs: its configs.
        place: where it works.
        progress: shows messages; None: they are returned.
        is_worker: whether this process ends with the process of the command, its parent.

    Returns:
        Its number, how many results are new, what failed, and messages that were not shown.
    """
    if is_worker:
        _end_with_parent()
    notes, results, failed = list[str](), list[Any](), list[tuple[str, Exception]]()
    said: Any = progress or SimpleNamespace(note=notes.append, track=quiet.track)
    with _ALONE, warnings.catch_warnings():
        if progress is None and not sys.warnoptions:
            warnings.simplefilter("ignore")  # as in the command
        try:
            if not Path(place.results).is_dir():
                raise InputError(
                    f"process {os.getpid()} on {socket.gethostname()} cannot access the results folder "
                    f"{place.results}; set results= to a folder that all workers access under the same path"
                )
            if place.folder not in sys.path:
                sys.path.append(place.folder)  # finds the plug-ins of a user
            with chdir(place.folder if Path(place.folder).is_dir() else "."):
                results, failed = compute(configs, Tracker(Store(place.results), uri=place.uri, say=said.note), said)
        except RecordUnreachable:
            raise
        except Exception as error:
            failed = [(name_of(configs[0]), error)]
    told = [(name, *explain(error)) for name, error in failed]
    failures = [(f"{name}: {text}", code) for name, text, code in told]
    return number, sum(not result.reused for result in results), failures, notes


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
