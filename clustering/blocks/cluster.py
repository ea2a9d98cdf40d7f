"""Application of a function to all blocks on the workers of a Dask cluster, and collection of the results.

The scheduler can recompute every value on a worker, because each value is the result of tasks on the blocks of the
data; the loss of a worker therefore only costs time. The chain of tasks behind a value is short, because each update of
the prototypes starts from coordinates in this process.
"""

import uuid
from collections.abc import Callable
from dataclasses import dataclass, is_dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from clustering.foundation.errors import InputError

if TYPE_CHECKING:
    from distributed import Client, Future


class Kept(NamedTuple):
    """Result of a task: a value that stays on its worker, and a small report."""

    value: Any
    report: Any = None

    def __sizeof__(self) -> int:
        """Size in bytes, by which workers decide when to spill; Dask does not measure the size of tensors."""
        return _bytes(self.value)


@dataclass(frozen=True)
class Cluster:
    """A Dask cluster that processes P blocks.

    Attributes:
        client: client of the cluster.
        count: P, the number of blocks, which is independent of the number of workers.
    """

    client: "Client"
    count: int

    @classmethod
    def of(cls, count: int) -> "Cluster":
        """The cluster of the current client.

        Raises:
            InputError: Dask's distributed scheduler is not installed, or there is no client.
        """
        try:
            from distributed import get_client
        except ModuleNotFoundError as error:
            raise InputError(
                "clustering a dask.array requires the package distributed; run pip install 'transduce[dask]'"
            ) from error
        try:
            return cls(get_client(), count)
        except ValueError as error:
            raise InputError(
                "clustering a dask.array requires a Dask client; create one first: "
                "`client = distributed.Client('tcp://HOST:8786')`, or `distributed.Client()` for this machine"
            ) from error

    def submit(self, function: Callable[..., Any], *arguments: Any) -> "Future":
        """Submit a task; Dask prefers the worker that holds most of its arguments."""
        key = f"{function.__name__.strip('_')}-{uuid.uuid4().hex}"
        return self.client.submit(_work, function, *arguments, key=key, pure=False)

    def begin(self, function: Callable[..., Any], *arguments: Any) -> list["Future"]:
        """Submit a task for each block. Block p receives item p of each argument that is a list, and all other
        arguments unchanged."""
        argument_lists = [each if isinstance(each, list) else [each] * self.count for each in arguments]
        key = f"{function.__name__.strip('_')}-{uuid.uuid4().hex}"
        futures: list[Future] = self.client.map(_work, [function] * self.count, *argument_lists, key=key, pure=False)
        return futures

    def ask(self, function: Callable[..., Any], *arguments: Any) -> list[Any]:
        """Submit a task for each block and return the results, which should be small, in the order of the blocks."""
        return self.gather(self.begin(function, *arguments))

    def run(self, function: Callable[..., Any], *arguments: Any) -> tuple[list["Future"], list[Any]]:
        """Submit a task for each block, with a function that returns a `Kept`; return the tasks and their reports, in
        the order of the blocks."""
        kept = self.begin(function, *arguments)
        return kept, self.ask(_report, kept)

    def gather(self, futures: list["Future"]) -> list[Any]:
        """Results of tasks, which should be small.

        Raises:
            InputError: several workers died while they ran the same task.
        """
        from distributed.scheduler import KilledWorker

        try:
            results: list[Any] = self.client.gather(futures)
        except KilledWorker as error:
            raise InputError(
                "several workers died while processing the same block of rows, probably for lack of memory; "
                "make smaller blocks with X.rechunk((FEWER_ROWS, -1)), or use workers with more memory"
            ) from error
        return results


def _work(function: Callable[..., Any], *arguments: Any) -> Any:
    with torch.no_grad():
        return function(*(arguments if function is _report else map(_value, arguments)))


def _value(argument: Any) -> Any:
    if isinstance(argument, Kept):
        return argument.value
    return [_value(each) for each in argument] if isinstance(argument, list) else argument


def _report(kept: Kept) -> Any:
    return kept.report


def _bytes(value: Any) -> int:
    if isinstance(value, torch.Tensor):
        return value.untyped_storage().nbytes()
    if is_dataclass(value):
        return sum(map(_bytes, vars(value).values()))
    if isinstance(value, tuple | list):
        return sum(map(_bytes, value))
    return int(getattr(value, "nbytes", 64))
