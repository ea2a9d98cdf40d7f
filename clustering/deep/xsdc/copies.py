"""Changed copies of pictures: whatever a picture's cluster is, that of its copies is the same."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from clustering.foundation.streams import stream

_ANGLE = 15.0
"""Degrees that a copy is turned by at most."""
_WIDTH = 0.2
"""Share by which it is wider or narrower at most."""
_SHIFT = 0.08
"""Share of the side by which it is moved along each axis at most."""
_ERASED = 0.35
"""Longest side of the rectangle that is erased, as a share of the picture's."""


@dataclass(frozen=True)
class Copies:
    """How copies of square grey pictures are made: turned, made wider or narrower, moved, and a rectangle erased (the
    changes of XSDC, Jones, Roulet and Harchaoui, Figure 8; how large they are is not said there).

    What comes in from outside is as the border is, and what is erased gets the picture's smallest value.

    Attributes:
        count: of pictures made of one, which is the first of them, as it is.
        side: in pixels.
        seed: the changes derive from it, and from the step.
    """

    count: int
    side: int
    seed: int

    def of(self, rows: Tensor, step: int) -> Tensor:
        """(n count, side^2) of each of the rows (n, side^2) itself and its changed copies, one after the other."""
        changed = self.count - 1
        if not changed or not len(rows):
            return rows
        drawn = stream(self.seed, "changed copies", step).uniform(-1, 1, size=(8, len(rows) * changed))
        angle, width, down, right, *erased = torch.from_numpy(drawn).to(rows)
        angle, width = angle * math.radians(_ANGLE), (width * math.log1p(_WIDTH)).exp()
        one = torch.ones_like(angle)
        # From positions of the output, in -1..1, to those of the input: narrowed first, then turned and moved.
        turned = [torch.stack([angle.cos(), -angle.sin()], 1), torch.stack([angle.sin(), angle.cos()], 1)]
        linear = torch.stack(turned, 1) @ torch.diag_embed(torch.stack([1 / width, one], 1))
        maps = torch.cat([linear, torch.stack([right, down], 1)[:, :, None] * (2 * _SHIFT)], dim=2)
        images = rows.view(-1, 1, self.side, self.side).repeat_interleave(changed, dim=0)
        grid = functional.affine_grid(maps, list(images.shape), align_corners=False)
        moved = functional.grid_sample(images, grid, padding_mode="border", align_corners=False)
        across, along, height, breadth = erased
        places = torch.linspace(-1, 1, self.side, dtype=rows.dtype, device=rows.device)
        inside_rows = (places - across[:, None]).abs() < _ERASED * height[:, None].abs()
        inside_columns = (places - along[:, None]).abs() < _ERASED * breadth[:, None].abs()
        hidden = (inside_rows[:, :, None] & inside_columns[:, None, :])[:, None]
        copies = torch.where(hidden, images.amin((2, 3), keepdim=True), moved).view(len(rows), changed, -1)
        return torch.cat([rows[:, None], copies], dim=1).flatten(0, 1)
