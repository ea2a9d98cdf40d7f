"""Norms of rows, also where their squares underflow."""

import math

import torch
from torch import Tensor

ABOVE_TINY = 1e3


def vanishing(dtype: torch.dtype) -> float:
    """Magnitude below which squares lose precision: a multiple of the root of the smallest normal number."""
    return ABOVE_TINY * math.sqrt(torch.finfo(dtype).tiny)


def unit_rows(rows: Tensor) -> Tensor:
    """Rows (…, D) divided by their norm, also if their squares underflow; zero rows are unchanged."""
    tiny = torch.finfo(rows.dtype).tiny
    lengths = rows.norm(dim=-1, keepdim=True)
    short = lengths < vanishing(rows.dtype)
    if short.any():
        largest = rows.detach().abs().amax(dim=-1, keepdim=True)
        rows = torch.where(short & (largest > 0), rows / torch.where(largest > 0, largest, 1.0), rows)
        lengths = rows.norm(dim=-1, keepdim=True)
    unit: Tensor = rows / lengths.clamp_min(tiny)
    return unit
