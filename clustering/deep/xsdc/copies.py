"""Augmented copies of images, which share the cluster of the original."""

import math

import torch
from torch import Tensor
from torch.nn import functional

from clustering.foundation.streams import stream

_ANGLE = 15.0
"""Maximum rotation of a copy in degrees."""
_WIDTH = 0.2
"""Maximum relative change of its width."""
_SHIFT = 0.08
"""Maximum shift along each axis, as a share of the side."""
_ERASED = 0.35
"""Longest side of the erased rectangle, as a share of the side of the image."""


def with_copies(rows: Tensor, count: int, seed: int, step: int) -> Tensor:
    """(n count, side^2) for each of the rows (n, side^2), square grey images, the row and its augmented copies, by
    rotation, scaling of the width, shift, and erasure of a rectangle.

    These are the changes of XSDC (Jones, Roulet and Harchaoui, Figure 8), which does not state their size. Pixels from
    outside repeat the border, and erased pixels get the smallest value of the image.

    Args:
        rows: (n, side^2).
        count: number of versions of an image, including the unmodified image, which comes first.
        seed: seed of the changes, together with the step.
        step: number of the step.
    """
    changed, side = count - 1, math.isqrt(rows[0].numel()) if len(rows) else 0
    if not changed or not len(rows):
        return rows
    drawn = stream(seed, "changed copies", step).uniform(-1, 1, size=(8, len(rows) * changed))
    angle, width, down, right, *erased = torch.from_numpy(drawn).to(rows)
    angle, width = angle * math.radians(_ANGLE), (width * math.log1p(_WIDTH)).exp()
    ones = torch.ones_like(angle)
    # Maps positions of the output, in -1..1, to those of the input: scaled first, then rotated and shifted.
    turned = [torch.stack([angle.cos(), -angle.sin()], 1), torch.stack([angle.sin(), angle.cos()], 1)]
    linear = torch.stack(turned, 1) @ torch.diag_embed(torch.stack([1 / width, ones], 1))
    maps = torch.cat([linear, torch.stack([right, down], 1)[:, :, None] * (2 * _SHIFT)], dim=2)
    images = rows.view(-1, 1, side, side).repeat_interleave(changed, dim=0)
    grid = functional.affine_grid(maps, list(images.shape), align_corners=False)
    moved = functional.grid_sample(images, grid, padding_mode="border", align_corners=False)
    across, middle, height, breadth = erased
    places = torch.linspace(-1, 1, side, dtype=rows.dtype, device=rows.device)
    inside_rows = (places - across[:, None]).abs() < _ERASED * height[:, None].abs()
    inside_columns = (places - middle[:, None]).abs() < _ERASED * breadth[:, None].abs()
    hidden = (inside_rows[:, :, None] & inside_columns[:, None, :])[:, None]
    copies = torch.where(hidden, images.amin((2, 3), keepdim=True), moved).view(len(rows), changed, -1)
    return torch.cat([rows[:, None], copies], dim=1).flatten(0, 1)
