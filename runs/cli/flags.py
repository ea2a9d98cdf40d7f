"""Flags of the verbs that start missing runs."""

import math
import re
from dataclasses import dataclass

from clustering.foundation.errors import InputError


@dataclass(frozen=True)
class Flags:
    """How missing runs are started.

    Attributes:
        yes: do not ask for confirmation.
        executor: "local", or the address of a Dask cluster.
        limit_minutes: start no job that would end later.
    """

    yes: bool = False
    executor: str = "local"
    limit_minutes: float | None = None

    def __post_init__(self) -> None:
        if self.executor != "local" and not re.fullmatch(r"dask://[^\s/]+:\d{1,5}", self.executor):
            raise InputError(f"--executor takes local or dask://HOST:PORT, not {self.executor!r}")
        if self.limit_minutes is not None and not 0 < self.limit_minutes < math.inf:
            raise InputError(f"--limit-minutes takes a number above 0, not {self.limit_minutes:g}")
