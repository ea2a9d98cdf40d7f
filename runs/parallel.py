"""Many runs at once by joblib: processes of this machine (loky), a Dask cluster, or SLURM by submitit.

Each job publishes its results to the cache under locks, so that two jobs or commands compute nothing twice, and a
command that was interrupted goes on with what is in the cache.
"""

import itertools
import math
import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import BrokenExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from clustering.foundation.errors import InputError, unknown
from clustering.foundation.progress import quiet
from runs.console.output import Console
from runs.jobs import Batch, Place, perform
from runs.track import Tracker

BACKENDS = ("loky", "dask", "submitit")
PREFIX, NAMES = "parallel.", ("backend", "n_jobs", "address")
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

    Raises:
        InputError: a wrong value.
    """

    backend: str = "loky"
    n_jobs: int | None = None
    address: str | None = None
    options: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        count = self.n_jobs
        if self.backend not in BACKENDS:
            raise InputError(f"{PREFIX}backend takes {', '.join(BACKENDS)}, not {self.backend!r}")
        if count is not None and (type(count) is not int or not (count == -1 or count >= 1)):
            raise InputError(f"{PREFIX}n_jobs takes a number of jobs, or -1 for one on each core, not {count!r}")
        if self.address is not None and self.backend != "dask":
            raise InputError(f"{PREFIX}address is of a Dask scheduler; add {PREFIX}backend=dask")
        if self.options and self.backend != "submitit":
            raise unknown("key", f"{PREFIX}{next(iter(self.options))}", [f"{PREFIX}{name}" for name in NAMES])

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
        known = {name: values.pop(name) for name in NAMES if name in values}
        return cls(**known, options=values), [word for word in words if not word.startswith(PREFIX)]


def run_all(batch: Batch, tracker: Tracker, console: Console, parallel: Parallel, minutes: float = math.inf) -> None:
    """Run the jobs of a batch, and note in it what they did; those that remain were not run.

    A failure stops no other job. After so many minutes no job is started.

    Raises:
        InputError: the cluster or the record cannot be used.
    """
    deadline, jobs = time.monotonic() + 60 * minutes, dict(batch.jobs)
    place = Place(str(tracker.store.root), "" if tracker.own else tracker.uri, os.getcwd())
    tracker.store.prepare()
    run = _submitted if parallel.backend == "submitit" else _joined
    try:
        with (console if len(jobs) > 1 else quiet).track("jobs", len(jobs)) as advance:
            for number, computed, failures, notes in run(jobs, place, deadline, parallel, console) if jobs else ():
                del batch.jobs[number]
                batch.computed += computed
                batch.failures += failures
                for note in notes:
                    console.note(note)
                advance(1)
    except BrokenExecutor:
        why = "killed, perhaps because memory ran out; rerun the same command to go on with what is in the cache"
        batch.failures.append((f"a process: {why}, and {PREFIX}n_jobs=1 to use less memory", 1))
    except BaseException:
        with suppress(Exception):  # the processes are gone; the first error is what counts
            tracker.end_dead_runs()
        raise


def _joined(
    jobs: dict[int, list[Any]], place: Place, deadline: float, parallel: Parallel, console: Console
) -> Iterator[Any]:
    """Yield what `perform` returns of each job when it is done, by joblib."""
    import joblib
    import torch

    gpus, is_loky, count = torch.cuda.device_count(), parallel.backend == "loky", parallel.n_jobs or -1
    if is_loky and parallel.n_jobs is None:
        on_gpus = any(config.device != "cpu" for configs in jobs.values() for config in configs)
        count = min(len(jobs), (gpus if on_gpus else 0) or max(1, joblib.cpu_count() // 2))
    spread = is_loky and count != 1
    if spread and gpus > 1:  # in turn
        jobs = {
            number: [
                config.replace(device=f"cuda:{number % gpus}") if config.device == "auto" else config for config in job
            ]
            for number, job in jobs.items()
        }
    work = (
        joblib.delayed(perform)(number, configs, place, console if is_loky and not spread else None, spread)
        for number, configs in itertools.takewhile(lambda _: time.monotonic() < deadline, jobs.items())
    )
    how = {"batch_size": 1, "pre_dispatch": "n_jobs", "return_as": "generator_unordered", "max_nbytes": None}
    with joblib.parallel_config(backend="loky") if is_loky else _dask(parallel.address):
        yield from joblib.Parallel(count, **how)(work)


@contextmanager
def _dask(address: str | None) -> Iterator[None]:
    """Let joblib use a Dask cluster.

    Raises:
        InputError: it cannot be used.
    """
    import joblib

    try:
        from distributed import Client
    except ModuleNotFoundError as error:
        raise InputError(f"{PREFIX}backend=dask needs distributed: pip install 'transduce[dask]'") from error
    where, start = address or "the address of Dask's configuration", "with `dask worker HOST:PORT --nthreads 1`"
    try:
        client = Client(address, timeout=SECONDS)
    except (OSError, ValueError) as error:
        raise InputError(
            f"{PREFIX}backend=dask: no scheduler answers at {where} ({str(error).splitlines()[0]}); start one with "
            f"`dask scheduler`, and workers {start}"
        ) from error
    with client, joblib.parallel_config(backend="dask"):
        if not client.scheduler_info()["workers"]:
            raise InputError(f"{where}: no workers; start some {start}")
        yield


def _submitted(
    jobs: dict[int, list[Any]], place: Place, deadline: float, parallel: Parallel, console: Console
) -> Iterator[Any]:
    """Run jobs by submitit: on SLURM, or in processes of this machine where there is none."""
    try:
        import submitit
    except ModuleNotFoundError as error:
        raise InputError(f"{PREFIX}backend=submitit needs submitit: pip install 'transduce[slurm]'") from error
    executor = submitit.AutoExecutor(folder=Path(place.results) / "slurm")
    limit = {} if parallel.n_jobs in (None, -1) else {"slurm_array_parallelism": parallel.n_jobs}
    try:
        executor.update_parameters(name="transduce", **limit, **parallel.options)
    except (NameError, TypeError, ValueError) as error:
        raise InputError(f"{PREFIX}*: submitit: {error}") from error
    handles = dict(zip(executor.map_array(perform, jobs, jobs.values(), [place] * len(jobs)), jobs, strict=True))
    try:
        for handle in submitit.helpers.as_completed(list(handles)):
            try:
                yield handle.result()
            except (submitit.core.utils.UncompletedJobError, submitit.core.utils.FailedJobError) as error:
                why = f"job {handle.job_id}: {str(error).splitlines()[0]}; its output: {handle.paths.stderr}"
                yield handles[handle], 0, [(why, 1)], []
    except BaseException:
        for handle in handles:
            handle.cancel()
        raise
