"""Running many configs in other processes: what several jobs need comes first, and a failure stops nothing else."""

import time
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, wait
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field

from fsl.progress import Progress
from runs.config.configs import EvaluateConfig
from runs.console.output import Console
from runs.record.tracking import Tracker
from runs.scheduling.crews import Crew, crew
from runs.scheduling.jobs import Failure, Job, Report, perform
from runs.scheduling.missing import Missing, plan_missing
from runs.storage.locks import locked, try_locked
from runs.storage.store import Store

PATIENCE = 5.0  # seconds without a finished job after which the workers are counted again


@dataclass(frozen=True)
class Outcome:
    """What became of the configs.

    Attributes:
        made: evaluations that were made.
        reused: evaluations that were there already, or that another process made meanwhile.
        failures: what failed or could not be begun, in that order.
        not_started: jobs for which the time did not suffice, or whose record could not be reached.
    """

    made: int = 0
    reused: int = 0
    failures: tuple[Failure, ...] = ()
    not_started: tuple[Job, ...] = ()

    @property
    def code(self) -> int:
        """The exit code: that of the first failure, else 0."""
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
    """Evaluate what is not in the record yet; train and extract features first where they are missing.

    Each job holds the locks of what it makes, so that two commands at once make nothing twice. A job whose worker dies
    is begun once more. On an interruption the workers of this machine end at once, their runs marked KILLED.

    Args:
        console: shows what the jobs report, and how many are done.
        executor: "local", processes of this machine, or "dask://HOST:PORT".
        limit_minutes: begin nothing later than that, and nothing that would, by its estimate, end later.
        missing: what `plan_missing` found for these configs, where it was asked before.

    Raises:
        InputError: a store that cannot be written, a cluster that cannot be used. What a job raises is in the outcome.
    """
    missing = missing or plan_missing(configs, store, tracker)
    if not missing.jobs:
        if any(store.root.glob(_TOKENS)):  # a command was killed when all was done
            with _tokens(store):
                pass
        return Outcome(0, missing.finished, missing.blocked)
    deadline = None if limit_minutes is None else time.monotonic() + 60 * limit_minutes
    on_gpu = any(config.device != "cpu" for config in configs)
    with _token(store, missing.jobs[0].token), crew(executor, missing.jobs, console, on_gpu=on_gpu) as them:
        schedule = _Schedule(missing, them, deadline, console)
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
    """One job needs no bar."""


@contextmanager
def _token(store: Store, name: str) -> Iterator[None]:
    """A file by which a worker knows the results folder of this command."""
    store.prepare()
    token = store.root / name
    with ExitStack() as held:
        with _tokens(store):
            held.callback(token.unlink, missing_ok=True)
            held.enter_context(try_locked(token))
        yield


@contextmanager
def _tokens(store: Store) -> Iterator[None]:
    """The lock under which tokens are made, with those of killed commands removed."""
    with store.watched(), locked(store.locks / "tokens.lock", "the tokens of commands"):
        for other in store.root.glob(_TOKENS):
            with suppress(OSError), try_locked(other) as abandoned:
                if abandoned:  # whoever made it was killed: the system has freed its lock
                    other.unlink(missing_ok=True)
        yield


@dataclass
class _Schedule:
    """Jobs on their way: those that may begin, those that wait for features, those under way."""

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
        """What was not begun."""
        return [*self._ready, *(job for jobs in self._waiting.values() for job in jobs)]

    def run(self) -> Iterator[int]:
        """Until all is done or the time is up; gives how many jobs have just come to an end."""
        self._begin()
        while self._under_way:
            done, _ = wait(self._under_way, timeout=PATIENCE, return_when=FIRST_COMPLETED)
            for future in done:
                yield self._collect(self._under_way.pop(future), future)
            if not done and not self.crew.slots() and not self._warned:
                self._warned = True
                self.say.note(f"{self.crew.name} has no worker left: waiting for one")
            self._begin()

    def _begin(self) -> None:
        """Hand out as many jobs as there is room for; none where the record cannot be reached."""
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
        """Take in how a job ended; gives by how many jobs there are fewer to be done."""
        try:
            report = future.result()
        except self.crew.death as error:
            if self._begun[job] < self.crew.attempts:
                self.say.note(f"{job.name}: its process was killed, as where memory runs out; beginning it once more")
                self._ready.appendleft(job)
                return 0
            why = f"its process was killed each time, as where memory runs out ({type(error).__name__})"
            report = Report(failures=(Failure(job.name, why, 1, job.evaluations),))
        except CancelledError:
            why = f"{self.crew.name} is gone; give the same command again"
            report = Report(failures=(Failure(job.name, why, 1, job.evaluations),))
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
