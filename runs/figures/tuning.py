"""Accuracy against the values tried by a tuning, as a curve with its band."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from runs.figures.style import COLOURS, series
from runs.stages.curves import Curve

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def draw_curve(axes: "Axes", places: Sequence[float], curve: Curve, label: str, i: int) -> None:
    """Draw the i-th curve: mean accuracies in %, with their 95 % intervals as a band."""
    means = np.array([100 * trial.result.accuracy for trial in curve.trials])
    widths = np.array([100 * trial.result.ci95 for trial in curve.trials])
    axes.plot(places, means, label=label, **series(i))
    axes.fill_between(places, means - widths, means + widths, color=COLOURS[i], alpha=0.15, linewidth=0)
