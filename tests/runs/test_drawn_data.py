"""What is drawn are the values of the frame: dots, medians, the lengths of error bars, and differences in words."""

import numpy as np
import pandas as pd
import pytest

from fsl.evaluation.scores import half_width
from runs.figures.intervals import intervals_figure
from runs.figures.lines import differences, lines_figure, summary
from runs.figures.quickstart import descent_figure
from runs.figures.style import COLOURS

TRACE = np.array([[1.0, 2.0, 9.0], [0.5, 0.25, 0.125], [0.0, 0.0, 0.0]])  # (steps, tasks)


def ends(bars):
    """(n, 2) lower and upper end of each error bar, along the axis that varies."""
    (lines,) = bars[2]
    segments = np.array(lines.get_segments(), dtype=float)
    return segments[:, :, 0] if np.ptp(segments[:, :, 0], axis=1).any() else segments[:, :, 1]


def tidy(*rows, quantity="accuracy (%)"):
    """Rows of panel, line, x, pair and value as a frame."""
    return pd.DataFrame(rows, columns=["panel", "line", "x", "pair", "value"]).assign(quantity=quantity)


def drawn(frame):
    return summary(frame, "deviation")


def test_intervals_are_those_of_the_frame():
    columns = ["row", "series", "mean", "low", "high", "outer", "filled"]
    cells = [("a", "1-shot", 60, 55, 66, 7, True), ("b", "1-shot", 70, 69, 71, np.nan, False)]
    (axes,) = intervals_figure(pd.DataFrame(cells, columns=columns), "accuracy", "title").axes
    thick, thin = axes.containers[:2]
    np.testing.assert_allclose(ends(thick), [[55, 66], [69, 71]])
    np.testing.assert_allclose(thin[2][0].get_segments()[0][:, 0], [53, 67])
    (dots,) = [drawn for drawn in axes.collections if len(drawn.get_offsets()) == 2]
    np.testing.assert_allclose(dots.get_offsets(), [[60, 0], [70, 1]])
    assert [face.min() < 1 for face in dots.get_facecolor()] == [True, False]
    assert [text.get_text() for text in axes.texts] == ["60.0", "70.0"]


@pytest.mark.parametrize(
    ("kind", "below", "above"),
    [
        ("range", 4 / 3, 5 / 3),
        ("deviation", np.std([1, 2, 4], ddof=1), np.std([1, 2, 4], ddof=1)),
        ("interval", half_width(np.array([1.0, 2, 4])), half_width(np.array([1.0, 2, 4]))),
    ],
)
def test_bars_along_a_setting(kind, below, above):
    frame = tidy(*(("data", "a", 1.0, seed, value) for seed, value in enumerate([1, 2, 4])))
    (axes,) = lines_figure(summary(frame, kind), "weight").axes
    (bars,) = axes.containers
    np.testing.assert_allclose(list(bars[0].get_ydata()), [7 / 3])
    np.testing.assert_allclose(ends(bars), [[7 / 3 - below, 7 / 3 + above]])


def test_the_line_of_tasks_is_their_median():
    median = [2.0, 0.25, 1e-6]
    np.testing.assert_allclose(descent_figure(TRACE, "s").axes[0].get_lines()[-1].get_ydata(), median)


def test_differences_are_of_the_same_seeds():
    known = [
        ("b", 50, 2, 75),
        ("b", 50, 1, 60),
        ("b", 100, 1, 50),
        *(("a", 50, *one) for one in ((1, 80), (2, 70), (3, 90))),
    ]
    one = tidy(*(("digits", *row) for row in known), ("digits", "a", 500, 1, 90))
    assert differences(one).endswith(" above 0: a over b: +7.5 at 50 (1 of 2).")
    assert "; a over b (two): " in differences(pd.concat([one, one.assign(panel="two")]))
    assert differences(one[one["line"] == "a"]) == ""


def test_equal_values_have_no_bar():
    """Their mean may be rounded to above or below all of them."""
    values = np.random.default_rng(0).random(50)
    frame = tidy(*(("data", "a", x, seed, value) for x, value in enumerate(values) for seed in range(3)))
    (axes,) = lines_figure(summary(frame, "range"), "weight").axes
    np.testing.assert_allclose(np.ptp(ends(axes.containers[0]), axis=1), 0, atol=1e-12)


def test_a_panel_for_each_and_a_power_of_two_for_what_is_one():
    frame = tidy(
        *(("one", "a", 0.25, 1, 50), ("one", "a", 0.5, 1, 60)), *(("two", "b", 1.0, 1, 50), ("two", "b", 1.0, 2, 70))
    )
    figure = lines_figure(drawn(frame), {"one": "step", "two": "penalty"}, logarithmic=True)
    assert [axes.get_xlabel() for axes in figure.axes] == ["step", "penalty"]
    assert [axes.get_title() for axes in figure.axes] == ["one", "two"]
    assert all(axes.get_xscale() == "log" for axes in figure.axes)
    (bars,) = figure.axes[1].containers
    assert bars[0].get_xydata().tolist() == [[1, 60]]
    assert [axes.containers[0][0].get_color() for axes in figure.axes] == list(COLOURS[:2])


def test_panels_of_quantities_and_of_a_long_row():
    """A panel without the second quantity has its axis above; five panels of one quantity take two rows."""
    energy = tidy(("one", "a", 1.0, 1, 3), ("two", "a", 1.0, 1, 4), quantity="energy")
    figure = lines_figure(drawn(pd.concat([energy, tidy(("one", "a", 1.0, 1, 50))])), "weight")
    assert [axes.get_ylabel() for axes in figure.axes] == ["energy", "", "accuracy (%)", ""]
    assert [axes.get_xlabel() for axes in figure.axes] == ["", "weight", "weight", ""]
    assert [axes.axison for axes in figure.axes] == [True, True, True, False]
    five = lines_figure(drawn(tidy(*((f"panel {i}", "a", 1.0, 1, i) for i in range(5)))), "weight").axes
    assert [axes.get_title() for axes in five if axes.axison] == [f"panel {i}" for i in range(5)]
    assert [axes.get_xlabel() for axes in five[:5]] == ["", "weight", "weight", "weight", "weight"]


def test_all_names_stand_in_the_picture():
    names = ("XSDC", "K-means, linear", "K-means, inverse covariance", "K-means, gaussian")
    figure = lines_figure(drawn(tidy(*(("digits", name, 50.0, 1, 50) for name in names))), "known labels")
    (legend,) = figure.legends
    figure.canvas.draw()
    box = legend.get_window_extent()
    assert 0 <= box.x0 < box.x1 <= figure.bbox.width
