"""Figures of fair clustering: what is drawn are the numbers of the runs, and what cannot be drawn says why."""

import numpy as np
import pytest

from clustering.foundation.errors import InputError
from runs.config.configs import FairConfig, parse
from runs.figures import fair
from runs.figures.papers import drawing
from runs.stages.fair.stage import fair_clustering, points_of

SMALL = ["dataset=synthetic", "n_init=1", "max_iter=5"]


@pytest.fixture
def run(store, tracker):
    def make(*settings, weights="0,10,500"):
        configs = parse(FairConfig, [*SMALL, f"fairness_weight={weights}", *settings])
        results, failed = fair_clustering(configs, store, tracker)
        assert not failed
        return results

    return make


def test_lines_are_the_paths_of_the_runs(run):
    results = run("method=fair_kmeans,fair_kmedian")
    figure, caption = drawing("thesis/3.1").drawn(results)
    assert "Synthetic K = 2; seed 0" in caption
    left, right = figure.axes[:2], figure.axes[2:]
    for result, objectives, errors in zip(results, left, right, strict=True):
        found = result.found
        for axes, values in ((objectives, found.objective), (errors, found.fairness_error)):
            (line,) = axes.lines
            np.testing.assert_array_equal(line.get_xdata(), found.weights)
            np.testing.assert_array_equal(line.get_ydata(), values)
    with pytest.raises(InputError, match="one path for each method and data set"):
        fair.trade_off([results[0], results[0]])


def test_a_method_without_a_weight_has_no_curve():
    with pytest.raises(InputError, match="bera"):
        fair.with_weights(parse(FairConfig, ["method=fair_kmeans,bera"]))


def test_convergence_is_that_of_the_largest_weight(run):
    results = run("method=fair_kmeans,fair_ncut")
    figure, _ = fair.convergence(results)
    for result, axes in zip(results, figure.axes, strict=True):
        found = result.found
        E = found.history_objective[(found.history_step == 2) & (found.history_weight == 500)]
        (line,) = axes.lines
        np.testing.assert_array_equal(line.get_ydata(), E)
        assert (np.diff(E) <= 1e-9 * np.abs(E[:-1])).all()


def test_points_are_in_their_own_units_and_shaped_by_group(run):
    (result,) = run("method=fair_kmeans")
    plane, of_points, _ = fair.points(result.config)
    assert np.linalg.norm(plane, axis=1).max() > 2, "not the angles that the method sees"
    rows = points_of(result.config).values
    np.testing.assert_allclose(plane / np.linalg.norm(plane, axis=1, keepdims=True), rows)
    figure, _ = fair.partitions([result])
    groups, *plots = figure.axes
    assert len(plots) == 3
    for axes, step in zip(plots, range(3), strict=True):
        assert sum(len(dots.get_offsets()) for dots in axes.collections) == 400
        assert f"error {result.found.fairness_error[step]:.2g}" in axes.get_title()
        assert f"balance {result.found.balance_min[step]:.2f}" in axes.get_title()
        for group, dots in enumerate(axes.collections):
            labels = result.found.labels[step][of_points == group]
            colours = [tuple(colour) for colour in dots.get_facecolor()]
            for cluster in range(2):
                assert len({colours[i] for i in np.flatnonzero(labels == cluster)}) <= 1
    assert groups.get_title().startswith("Synthetic")


def test_of_a_long_path_some_weights_are_drawn(run):
    (result,) = run("method=fair_kmeans", weights="0,1,2,5,10,20,50,100")
    figure, _ = fair.partitions([result])
    assert [axes.get_title().splitlines()[0] for axes in figure.axes[1:]] == [f"λ = {w}" for w in (0, 2, 20, 100)]
    with pytest.raises(InputError, match="one path for each data set"):
        fair.one_path_each(parse(FairConfig, ["method=fair_kmeans", "seed=0,1"]))


def test_a_folder_is_that_of_the_data_with_files(tmp_path):
    """Figure 3.1 has two sets with files and one without."""
    configs = drawing("thesis/3.1").configs("", [f"root={tmp_path}"], print)
    assert [config.dataset.name for config in configs] == 2 * ["synthetic_unequal", "adult_thesis", "bank_thesis"]
    assert {config.dataset.options.get("root") for config in configs} == {None, str(tmp_path)}
    with pytest.raises(InputError, match="root"):
        drawing("thesis/3.3").configs("", [f"root={tmp_path}"], print)
