"""Learning-rate schedules as functions of the step alone, so that resuming needs no schedule's state."""

import math
from bisect import bisect_right
from collections.abc import Sequence
from typing import Literal

Schedule = Literal["step", "cosine", "one_cycle"]
START = 0.04  # one_cycle begins at this share of its peak


def factor(
    schedule: Schedule,
    step: int,
    *,
    steps_per_epoch: int,
    epochs: int,
    warmup: float = 0.0,
    milestones: Sequence[int] = (),
    gamma: float = 0.1,
) -> float:
    """What the base learning rate is multiplied by at a step.

        step       gamma to the power of the number of milestones passed
        cosine     (1 + cos(pi t)) / 2, t from 0 after the warm-up to 1 at the end
        one_cycle  up from 0.04 by half a cosine during the warm-up, then as cosine

    Args:
        schedule: which.
        step: optimiser steps taken before this one, from 0.
        steps_per_epoch: steps in an epoch.
        epochs: length of the whole training.
        warmup: epochs of rising rate; linear from one step's share for step and cosine.
        milestones: epochs at which the step schedule falls.
        gamma: by how much it falls.

    Returns:
        A factor in 0..1.
    """
    rising = warmup * steps_per_epoch
    if step < rising:
        if schedule == "one_cycle":
            return START + (1 - START) * (1 - math.cos(math.pi * step / rising)) / 2
        return (step + 1) / (math.floor(rising) + 1)
    if schedule == "step":
        return float(gamma ** bisect_right(sorted(milestones), step // steps_per_epoch))
    total = steps_per_epoch * epochs
    return (1 + math.cos(math.pi * min(1.0, (step - rising) / max(1.0, total - rising)))) / 2
