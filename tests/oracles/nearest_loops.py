"""Nearest neighbours one point at a time, and small sets of points with whatever makes them hard."""

from typing import Any

import torch
from hypothesis import strategies as st

CASES: dict[str, st.SearchStrategy[Any]] = {
    "seed": st.integers(0, 10_000),
    "points": st.integers(1, 9),
    "k": st.integers(0, 12),
    "integers": st.booleans(),
    "pad": st.booleans(),
}


def draw(seed: int, points: int, integers: bool, pad: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """(3, points, 2) points, with exact ties and duplicates if they are integers, and which of them are no padding."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(3, points, 2, generator=generator, dtype=torch.float64)
    if integers:
        x = x.mul(1 + 3 * (seed % 2)).round()  # many duplicates, or few
    valid = torch.rand(3, points, generator=generator) < 0.7 if pad else torch.ones(3, points, dtype=torch.bool)
    return x, valid


def nearest(x: torch.Tensor, k: int, valid: torch.Tensor) -> list[list[list[tuple[float, int]]]]:
    """(squared distance, index) of the k nearest others of every point, nearest first, ties to the lowest index."""
    found: list[list[list[tuple[float, int]]]] = []
    for b in range(len(x)):
        found.append([])
        for p in range(x.shape[1]):
            others = [q for q in range(x.shape[1]) if q != p and valid[b, q] and valid[b, p]]
            found[b].append(sorted((float(((x[b, p] - x[b, q]) ** 2).sum()), q) for q in others)[:k])
    return found
