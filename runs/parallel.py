"""Many runs at once by joblib: processes of this machine (loky), a Dask cluster, or SLURM by submitit.

Networks are trained and features extracted first, because many results share them; then the results are computed. Each
job publishes its results to the cache under locks, so that two commands at once compute nothing twice, and a command
that was interrupted goes on with what is in the cache.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, get_args

from clustering.foundation.errors import InputError, unknown
from runs.cache import Store
from runs.console.output import Console
from runs.jobs import Failure, Job, Missing, Outcome, perform
from runs.track import Tracker

Backend = Literal["loky", "dask", "submitit"]
BACKENDS = get_args(Backend)
PREFIX = "parallel."
SECONDS = 5  # time limit for the connection to a Dask scheduler


@dataclass(frozen=True)
class Parallel:
    """Where jobs run: the keys `parallel.*` of the command line.

    Attributes:
        backend: "loky": processes of this machine; "dask"; "submitit": jobs of SLURM.
        n_jobs: number of jobs at once, -1 for one on each core; None: with loky one for each GPU or for two cores,
            otherwise no limit.
        address: of the Dask scheduler; None: that of Dask's configuration, or a cluster on this machine.
        options: other keys, parameters of submitit's executor such as `timeout_min` and `slurm_partition`.
    """

    backend: Backend = "loky"
    n_jobs: int | None = None
    address: str | None = None
    options: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, words: Sequence[str]) -> tuple["Parallel", list[str]]:
        """Return the keys `parallel.*` among the words of a command line, and the other words.

        Raises:
            InputError: an unknown key or a wrong value.
        """
        import yaml

        given = [word.removeprefix(PREFIX).partition("=") for word in words if word.startswith(PREFIX)]
        try:
            values = {name: yaml.safe_load(text) for name, _, text in given}
        except yaml.YAMLError as error:
            raise InputError(f"{PREFIX}*: not a value: {error}") from error
        backend, n_jobs, address = (values.pop(name, None) for name in ("backend", "n_jobs", "address"))
        if backend is not None and backend not in BACKENDS:
            raise InputError(f"{PREFIX}backend takes {', '.join(BACKENDS)}, not {backend!r}")
        chosen: Backend = backend or "loky"
        if n_jobs is not None and (type(n_jobs) is not int or not (n_jobs == -1 or n_jobs >= 1)):
            raise InputError(f"{PREFIX}n_jobs takes a number of jobs, or -1 for one on each core, not {n_jobs!r}")
        if address is not None and chosen != "dask":
            raise InputError(f"{PREFIX}address is of a Dask scheduler; add {PREFIX}backend=dask")
        if values and chosen != "submitit":
            name = next(iter(values))
            raise unknown("key", f"{PREFIX}{name}", [f"{PREFIX}{known}" for known in ("backend", "n_jobs", "address")])
        return cls(chosen, n_jobs, address, values), [word for word in words if not word.startswith(PREFIX)]


def run_all(
    missing: Missing,
    store: Store,
    tracker: Tracker,
    console: Console,
    parallel: Parallel = Parallel(),
    limit_minutes: float | None = None,
) -> Outcome:
    """Run the jobs. A failure stops no other job; after the time limit no job is started.

    Raises:
        InputError: the cluster or the record cannot be used.
    """
    outcome = Outcome(reused=len(missing.cached))
    deadline = None if limit_minutes is None else time.monotonic() + 60 * limit_minutes
    total, unprepared = len(missing.preparations) + len(missing.jobs), set[str]()
    store.prepare()
    try:
        with console.track("jobs", total) if total > 1 else nullcontext(_ignore) as advance:
            for jobs in (missing.preparations, missing.jobs):
                ready = [job for job in jobs if job.needs not in unprepared]
                waiting = list(ready)
                for done, report in _run(ready, waiting, deadline, parallel, console, outcome):
                    for note in report.notes:
                        console.note(note)
                    outcome.computed += report.computed
                    outcome.reused += report.reused
                    outcome.failures += report.failures
                    if done.prepares and report.failures:
                        unprepared.add(done.needs)
                    advance(1)
                outcome.not_started += waiting
                unprepared |= {job.needs for job in waiting if job.prepares}
    except BaseException:
        with suppress(Exception):  # the processes are gone; the first error is what counts
            tracker.end_dead_runs()
        raise
    outcome.failures += missing.blocked
    return outcome


def _ignore(count: int) -> None:
    """Ignore progress: a single job needs no bar."""


def _run(
    jobs: Sequence[Job],
    waiting: list[Job],
    deadline: float | None,
    parallel: Parallel,
    console: Console,
    outcome: Outcome,
) -> Iterator[tuple[Job, Outcome]]:
    """Yield each job when it is done; `waiting` keeps those that were not started."""
    if not jobs:
        return
    if parallel.backend == "submitit":
        waiting.clear()
        yield from _submitted(jobs, parallel)
        return
    import joblib
    from joblib.externals.loky.process_executor import TerminatedWorkerError

    def begun() -> Iterator[Job]:
        for job in jobs:
            if deadline is not None and time.monotonic() > deadline:
                return
            waiting.remove(job)
            yield job

    count = _at_once(parallel, jobs)
    jobs = _on_gpus(jobs) if parallel.backend == "loky" and count != 1 else jobs
    waiting[:] = jobs
    one = parallel.backend == "loky" and count == 1
    work = (joblib.delayed(perform)(job, console if one else None, parallel.backend, one) for job in begun())
    done: set[str] = set()
    try:
        with _backend(parallel):
            run = joblib.Parallel(
                count, batch_size=1, pre_dispatch="n_jobs", return_as="generator_unordered", max_nbytes=None
            )
            for job, report in run(work):
                done.add(job.name)
                yield job, report
    except TerminatedWorkerError:
        waiting[:] = [job for job in jobs if job.name not in done]
        why = "killed, perhaps because memory ran out; rerun the same command to go on with what is in the cache"
        outcome.failures.append(Failure("a process", f"{why}, and {PREFIX}n_jobs=1 to use less memory", 1))


def _at_once(parallel: Parallel, jobs: Sequence[Job]) -> int:
    """Return the number of jobs at once."""
    import joblib

    if parallel.n_jobs is not None or parallel.backend == "dask":
        return -1 if parallel.n_jobs is None else parallel.n_jobs
    if any("device=cpu" not in words for job in jobs for words in job.arguments):
        import torch

        if torch.cuda.is_available():
            return min(len(jobs), int(torch.cuda.device_count()))
    return min(len(jobs), max(1, int(joblib.cpu_count()) // 2))


def _on_gpus(jobs: Sequence[Job]) -> list[Job]:
    """Return jobs with device=auto on the GPUs of this machine in turn, if there are several."""
    import torch

    if (gpus := torch.cuda.device_count()) < 2:
        return list(jobs)
    return [
        replace(
            job,
            arguments=tuple(
                tuple(f"device=cuda:{i % gpus}" if word == "device=auto" else word for word in words)
                for words in job.arguments
            ),
        )
        for i, job in enumerate(jobs)
    ]


@contextmanager
def _backend(parallel: Parallel) -> Iterator[None]:
    """Set joblib's backend.

    Raises:
        InputError: the Dask cluster cannot be used.
    """
    import joblib

    if parallel.backend == "loky":
        with joblib.parallel_config(backend="loky"):
            yield
        return
    try:
        from distributed import Client
    except ModuleNotFoundError as error:
        raise InputError(f"{PREFIX}backend=dask needs distributed: pip install 'transduce[dask]'") from error
    where = parallel.address or "the address of Dask's configuration"
    try:
        client = Client(parallel.address, timeout=SECONDS)
    except (OSError, ValueError) as error:
        raise InputError(
            f"{PREFIX}backend=dask: no scheduler answers at {where} ({str(error).splitlines()[0]}); start one with "
            "`dask scheduler`, and workers with `dask worker HOST:PORT --nthreads 1`"
        ) from error
    with client:
        if not client.scheduler_info()["workers"]:
            raise InputError(f"{where}: no workers; start some with `dask worker HOST:PORT --nthreads 1`")
        with joblib.parallel_config(backend="dask"):
            yield


def _submitted(jobs: Sequence[Job], parallel: Parallel) -> Iterator[tuple[Job, Outcome]]:
    """Run jobs by submitit: on SLURM, or in processes of this machine where there is none."""
    try:
        import submitit
    except ModuleNotFoundError as error:
        raise InputError(f"{PREFIX}backend=submitit needs submitit: pip install 'transduce[slurm]'") from error
    executor = submitit.AutoExecutor(folder=Path(jobs[0].results) / "slurm")
    limit = {} if parallel.n_jobs in (None, -1) else {"slurm_array_parallelism": parallel.n_jobs}
    try:
        executor.update_parameters(name="transduce", **limit, **parallel.options)
    except (NameError, TypeError, ValueError) as error:
        raise InputError(f"{PREFIX}*: submitit: {error}") from error
    handles = dict(zip(executor.map_array(perform, jobs), jobs, strict=True))
    try:
        for handle in submitit.helpers.as_completed(list(handles)):
            try:
                yield handle.result()
            except (submitit.core.utils.UncompletedJobError, submitit.core.utils.FailedJobError) as error:
                why = f"job {handle.job_id}: {str(error).splitlines()[0]}; its output: {handle.paths.stderr}"
                yield handles[handle], Outcome(failures=[Failure(handles[handle].name, why, 1)])
    except BaseException:
        for handle in handles:
            handle.cancel()
        raise
