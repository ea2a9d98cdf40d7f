"""Lengths of rows, and where they cannot be had by squares."""

import math

import torch
from torch import Tensor

ABOVE_TINY = 1e3


def vanishing(dtype: torch.dtype) -> float:
    """Size below which the squares of numbers are lost: some times the root of the smallest normal number."""
    return ABOVE_TINY * math.sqrt(torch.finfo(dtype).tiny)


def unit_rows(rows: Tensor) -> Tensor:
    """Rows (…, D) divided by their length, zero rows as they are; also where the squares of a row vanish."""
    tiny = torch.finfo(rows.dtype).tiny
    lengths = rows.norm(dim=-1, keepdim=True)
    short = lengths < vanishing(rows.dtype)
    if short.any():
        largest = rows.detach().abs().amax(dim=-1, keepdim=True)
        rows = torch.where(short & (largest > 0), rows / torch.where(largest > 0, largest, 1.0), rows)
        lengths = rows.norm(dim=-1, keepdim=True)
    found: Tensor = rows / lengths.clamp_min(tiny)
    return found
