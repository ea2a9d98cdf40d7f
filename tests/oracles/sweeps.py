"""The objective within the assignment steps of an alternation, of which the strategies' own trace shows the ends."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor

import clustering.optimiser.alternation
from clustering.optimiser.descent import Descent, descend


@contextmanager
def recorded_sweeps() -> Iterator[list[Tensor]]:
    """The (T, B) trace of each assignment step that is done within, by the optimiser itself."""
    traces: list[Tensor] = []

    def recording(*arguments: Any, **options: Any) -> Descent:
        found = descend(*arguments, **{**options, "trace": True})
        assert found.trace is not None
        traces.append(found.trace)
        return found

    with patch.object(clustering.optimiser.alternation, "descend", recording):
        yield traces


def largest_rise(trace: Tensor) -> float:
    """Of an objective from step to step, as a share of its largest size; padding by NaN is left out."""
    rises = (trace[1:] - trace[:-1]).nan_to_num(0.0)
    return float(rises.max() / trace.nan_to_num(0.0).abs().max().clamp_min(1.0)) if rises.numel() else -torch.inf
