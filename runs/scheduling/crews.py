"""Executors of jobs: processes of this machine, or a Dask cluster. Both implement `concurrent.futures.Executor`."""

import contextlib
import logging
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from typing import TYPE_CHECKING

from clustering.foundation.errors import InputError
from clustering.foundation.usable_cores import usable_cores
from runs.console.output import Console
from runs.record.code_version import code_version
from runs.scheduling.jobs import Job, check_place
from runs.scheduling.local_pool import LocalPool
from runs.scheduling.relay import Relay

if TYPE_CHECKING:
    from distributed import Client

SECONDS = 5  # time limit for the connection to the scheduler
DASK = "dask://"


@dataclass(frozen=True)
class Crew:
    """An executor of jobs, with its capacity.

    Attributes:
        executor: runs the jobs.
        slots: number of jobs that run at once; read repeatedly, because the number of workers changes.
        cores: number of torch threads shared by all jobs; None: each job uses the cores of its worker.
        death: exception of a job whose worker died.
        attempts: how often a job is started if its worker dies.
        name: name of the crew in messages.
    """

    executor: Executor
    slots: Callable[[], int]
    cores: int | None
    death: type[Exception]
    attempts: int
    name: str


@contextlib.contextmanager
def crew(executor: str, jobs: Sequence[Job], console: Console, *, on_gpu: bool) -> Iterator[Crew]:
    """Yield the crew with the name `executor`, "local" or "dask://HOST:PORT".

    Args:
        jobs: the jobs that it will run, at least one.
        on_gpu: whether the jobs use a GPU if there is one.

    Raises:
        InputError: the cluster cannot be used.
    """
    if executor.startswith(DASK):
        with _dask(executor, jobs[0]) as workers:
            yield workers
        return
    cores = usable_cores()
    gpus = _gpus() if on_gpu else []
    slots = min(len(jobs), len(gpus) or max(1, cores // 2))
    relay = Relay(console)
    try:
        with LocalPool(relay, gpus if len(gpus) > 1 else []) as pool:
            yield Crew(pool, lambda: slots, cores, BrokenProcessPool, 2, "this machine")
    finally:
        relay.close()


def _gpus() -> list[str]:
    """Return the GPUs of this machine, as named in CUDA_VISIBLE_DEVICES."""
    import torch

    count = torch.cuda.device_count()
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    return named.split(",")[:count] if named else [str(i) for i in range(count)]


@contextlib.contextmanager
def _dask(place: str, job: Job) -> Iterator[Crew]:
    try:
        from distributed import Client
        from distributed.scheduler import KilledWorker
    except ModuleNotFoundError as error:
        raise InputError(f"--executor {place} needs the package distributed: pip install 'transduce[dask]'") from error
    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # hides its tracebacks of lost connections
    address = f"tcp://{place.removeprefix(DASK)}"
    try:
        client = Client(address, timeout=SECONDS, set_as_default=False)
    except (OSError, ValueError) as error:
        raise InputError(
            f"--executor {place}: no Dask scheduler answers there ({str(error).splitlines()[0]}); "
            "start one with `dask scheduler`, and workers with `dask worker HOST:PORT --nthreads 1`"
        ) from error

    def workers() -> int:
        with contextlib.suppress(OSError, RuntimeError, ValueError):  # raised if the scheduler is gone
            return len(client.nthreads())
        return 0

    with client:
        _check(client, place, job)
        executor = client.get_executor(pure=False)
        try:
            yield Crew(executor, workers, None, KilledWorker, 1, place)
        except BaseException:
            executor.shutdown(wait=False)  # cancels waiting jobs; running jobs continue on the cluster
            raise


def _check(client: "Client", executor: str, job: Job) -> None:
    """Check that each worker has this version of the code and can read the results folder.

    Raises:
        InputError: a worker fails the check, or there is no worker.
    """
    versions = client.run(code_version, on_error="return")
    if not versions:
        raise InputError(f"--executor {executor} has no workers; start some with `dask worker HOST:PORT --nthreads 1`")
    for worker, version in versions.items():
        if isinstance(version, BaseException):
            raise InputError(
                f"the worker {worker} cannot run this program ({type(version).__name__}: {version}); "
                "start it in an environment where it is installed"
            )
        if version != code_version():
            raise InputError(
                f"the worker {worker} has another version of this program ({version}, not {code_version()}); "
                "start it from the same checkout"
            )
    for answer in client.run(check_place, job.results, job.token, job.uri, on_error="return").values():
        if isinstance(answer, BaseException):
            raise InputError(f"--executor {executor}: {answer}") from answer
