"""Execution of many configs in other processes. Shared results are computed first; a failure stops no other job."""

import time
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, wait
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field

from clustering.foundation.progress import Progress
from runs.cache import Store
from runs.config.configs import EvaluateConfig
from runs.console.output import Console
from runs.scheduling.crews import Crew, crew
from runs.scheduling.jobs import Failure, Job, Report, perform
from runs.scheduling.missing import Missing, plan_missing
from runs.storage.locks import locked, try_locked
from runs.track import Tracker

PATIENCE = 5.0  # seconds without a finished job, after which the workers are counted again


@dataclass(frozen=True)
class Outcome:
    """The outcome of the configs.

    Attributes:
        made: number of new evaluations.
        reused: number of evaluations that existed before, or that another process computed in the meantime.
        failures: jobs that failed, then jobs that could not be started.
        not_started: jobs that did not fit into the time limit, or whose record could not be reached.
    """

    made: int = 0
    reused: int = 0
    failures: tuple[Failure, ...] = ()
    not_started: tuple[Job, ...] = ()

    @property
    def code(self) -> int:
        """The exit code of the first failure, or 0."""
        return self.failures[0].code if self.failures else 0


def run_all(
    configs: Sequence[EvaluateConfig],
    store: Store,
    tracker: Tracker,
    console: Console,
    *,
    executor: str = "local",
    limit_minutes: float | None = None,
    missing: Missing | None = None,
) -> Outcome:
    """Compute the evaluations that are not in the record; train and extract features first if they are missing.

    Each job holds the locks of its results, so that two concurrent commands compute nothing twice. A job whose worker
    dies is started once more. After an interruption the workers of this machine end at once; their runs become KILLED.

    Args:
        console: shows the messages of the jobs, and the number of finished jobs.
        executor: "local" (processes of this machine), or "dask://HOST:PORT".
        limit_minutes: no job is started after this time, or if its estimated end is after this time.
        missing: result of `plan_missing` for these configs, if it is already known.

    Raises:
        InputError: the store cannot be written, or the cluster cannot be used. Errors of jobs are part of the outcome.
    """
    missing = missing or plan_missing(configs, store, tracker)
    if not missing.jobs:
        if any(store.root.glob(_TOKENS)):  # left by a command that was killed after its last job
            with _tokens(store):
                pass
        return Outcome(0, missing.finished, missing.blocked)
    deadline = None if limit_minutes is None else time.monotonic() + 60 * limit_minutes
    on_gpu = any(config.device != "cpu" for config in configs)
    with _token(store, missing.jobs[0].token), crew(executor, missing.jobs, console, on_gpu=on_gpu) as workers:
        schedule = _Schedule(missing, workers, deadline, console)
        with console.track("jobs", len(missing.jobs)) if len(missing.jobs) > 1 else nullcontext(_ignore) as advance:
            for count in schedule.run():
                advance(count)
    return Outcome(
        schedule.made,
        schedule.reused + missing.finished,
        (*schedule.failures, *missing.blocked),
        tuple(schedule.left),
    )


_TOKENS = ".token-*"


def _ignore(count: int) -> None:
    """Ignore progress: a single job needs no progress bar."""


@contextmanager
def _token(store: Store, name: str) -> Iterator[None]:
    """Create a file, for the duration of the block, by which a worker recognises the results folder of this command."""
    store.prepare()
    token = store.root / name
    with ExitStack() as lock:
        with _tokens(store):
            lock.callback(token.unlink, missing_ok=True)
            lock.enter_context(try_locked(token))
        yield


@contextmanager
def _tokens(store: Store) -> Iterator[None]:
    """Hold the lock under which tokens are created; the tokens of killed commands are removed first."""
    with store.watched(), locked(store.locks / "tokens.lock", "the tokens of commands"):
        for other in store.root.glob(_TOKENS):
            with suppress(OSError), try_locked(other) as abandoned:
                if abandoned:  # the creator was killed, and the operating system has freed its lock
                    other.unlink(missing_ok=True)
        yield


@dataclass
class _Schedule:
    """Queue of jobs: those that can start, those that wait for features, and those that run."""

    missing: Missing
    crew: Crew
    deadline: float | None
    say: Progress
    made: int = 0
    reused: int = 0
    failures: list[Failure] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._ready = deque([*self.missing.features.values()])
        self._ready += [job for job, needs in self.missing.evaluations if not needs]
        self._waiting = {
            job: [other for other, needs in self.missing.evaluations if needs == identity]
            for identity, job in self.missing.features.items()
        }
        self._under_way: dict[Future[Report], Job] = {}
        self._begun: dict[Job, int] = {}
        self._warned = False

    @property
    def left(self) -> list[Job]:
        """The jobs that were not started."""
        return [*self._ready, *(job for jobs in self._waiting.values() for job in jobs)]

    def run(self) -> Iterator[int]:
        """Run until all jobs are done or the time limit is reached; yields the number of newly finished jobs."""
        self._begin()
        while self._under_way:
            finished, _ = wait(self._under_way, timeout=PATIENCE, return_when=FIRST_COMPLETED)
            for future in finished:
                yield self._collect(self._under_way.pop(future), future)
            if not finished and not self.crew.slots() and not self._warned:
                self._warned = True
                self.say.note(f"{self.crew.name} has no workers left; waiting for one")
            self._begin()

    def _begin(self) -> None:
        """Start a job for each free slot; none if the record cannot be reached."""
        if any(failure.ends_all for failure in self.failures):
            return
        room = max(1, self.crew.slots()) - len(self._under_way)
        fitting = [job for job in self._ready if self._fits(job)][: max(0, room)]
        at_once = len(self._under_way) + len(fitting)
        for job in fitting:
            self._ready.remove(job)
            self._begun[job] = self._begun.get(job, 0) + 1
            cores = self.crew.cores and max(1, self.crew.cores // at_once)
            self._under_way[self.crew.executor.submit(perform, job, cores)] = job

    def _fits(self, job: Job) -> bool:
        return self.deadline is None or time.monotonic() + job.seconds < self.deadline

    def _collect(self, job: Job, future: "Future[Report]") -> int:
        """Process the end of a job; return the number of jobs that need not be waited for any more."""
        try:
            report = future.result()
        except self.crew.death as error:
            if self._begun[job] < self.crew.attempts:
                self.say.note(f"{job.name}: its process was killed, perhaps because memory ran out; starting it again")
                self._ready.appendleft(job)
                return 0
            reason = f"its process was killed each time, perhaps because memory ran out ({type(error).__name__})"
            report = Report(failures=(Failure(job.name, reason, 1, job.evaluations),))
        except CancelledError:
            reason = f"{self.crew.name} has stopped; rerun the same command"
            report = Report(failures=(Failure(job.name, reason, 1, job.evaluations),))
        except Exception as error:
            report = Report(failures=(Failure.of(job.name, error, job.evaluations),))
        for note in report.notes:
            self.say.note(note)
        self.made += report.made
        self.reused += report.reused
        self.failures += report.failures
        released = self._waiting.pop(job, [])
        if report.failures:
            return 1 + len(released)
        self._ready.extendleft(reversed(released))
        return 1
