"""Learning-rate schedules as functions of the step only, so that no state is needed to resume a training."""

import math
from bisect import bisect_right
from collections.abc import Sequence
from typing import Literal

Schedule = Literal["step", "cosine", "one_cycle"]
START = 0.04  # one_cycle begins at this fraction of its peak


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
    """Factor of the base learning rate at a step.

        step       gamma to the power of the number of milestones passed
        cosine     (1 + cos(pi t)) / 2, t from 0 after the warm-up to 1 at the end
        one_cycle  rises from 0.04 to 1 by half a cosine during the warm-up, then as cosine

    Args:
        schedule: name of the schedule.
        step: optimiser steps taken before this one, from 0.
        steps_per_epoch: steps in an epoch.
        epochs: epochs of the whole training.
        warmup: epochs during which the rate rises; for step and cosine, linearly by the same amount each step.
        milestones: epochs at which the step schedule multiplies the rate by `gamma`.
        gamma: factor of the rate at each milestone.

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
