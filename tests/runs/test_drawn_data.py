"""What is drawn are the given numbers: dots, medians, and the lengths of error bars."""

from types import SimpleNamespace

import numpy as np
import pytest

from fsl.evaluation.scores import half_width
from runs.figures.accuracy_along import ACCURACY, lines_figure
from runs.figures.quickstart import accuracy_figure, descent_figure

TRACE = np.array([[1.0, 2.0, 9.0], [0.5, 0.25, 0.125], [0.0, 0.0, 0.0]])  # (steps, tasks)


def ends(bars):
    """(n, 2) lower and upper end of each error bar, along the axis that varies."""
    (lines,) = bars[2]
    segments = np.array(lines.get_segments(), dtype=float)
    return segments[:, :, 0] if np.ptp(segments[:, :, 0], axis=1).any() else segments[:, :, 1]


def test_bars_of_accuracies_are_their_intervals():
    cells = {
        ("a", "1-shot"): SimpleNamespace(results=[1], value=0.6, half_width=0.05),
        ("b", "1-shot"): SimpleNamespace(results=[1], value=0.7, half_width=0.01),
        ("c", "1-shot"): SimpleNamespace(results=[], value=float("nan"), half_width=float("nan")),
    }
    table = SimpleNamespace(rows=["a", "b", "c"], columns=["1-shot"], cells=cells, title="t; more")
    (axes,) = accuracy_figure(table).axes
    (bars,) = axes.containers
    np.testing.assert_allclose(bars[0].get_xdata().tolist(), [60, 70])
    np.testing.assert_allclose(ends(bars), [[55, 65], [69, 71]])


@pytest.mark.parametrize(
    ("kind", "below", "above"),
    [
        ("range", 4 / 3, 5 / 3),
        ("deviation", np.std([1, 2, 4], ddof=1), np.std([1, 2, 4], ddof=1)),
        ("interval", half_width(np.array([1.0, 2, 4])), half_width(np.array([1.0, 2, 4]))),
    ],
)
def test_bars_along_a_setting(kind, below, above):
    lines = {"a": {1.0: {0: 0.01, 1: 0.02, 2: 0.04}}}
    (axes,) = lines_figure([(ACCURACY, {"data": lines})], "weight", bars=kind).axes
    (bars,) = axes.containers
    np.testing.assert_allclose(list(bars[0].get_ydata()), [7 / 3])
    np.testing.assert_allclose(ends(bars), [[7 / 3 - below, 7 / 3 + above]])


def test_the_line_of_tasks_is_their_median():
    median = [2.0, 0.25, 1e-6]
    np.testing.assert_allclose(descent_figure(TRACE, "s").axes[0].get_lines()[-1].get_ydata(), median)
