"""Figures of XSDC: lines are the numbers of the runs, and captions have their differences, above or below 0."""

from typing import Any

import numpy as np
import pytest

from clustering.foundation.errors import InputError
from runs.config.configs import ClusterConfig, parse
from runs.figures import curves, learned
from runs.figures.papers import drawing
from runs.stages.clustering.stage import clustering, points_of, recorded_clustering
from runs.stages.clustering.trials import known_labels
from tests.runs.test_drawn_data import ends

SMALL = ["dataset=spirals", "arms=3", "points=30", "method=xsdc", "n_features=4", "starts=1", "selection=null"]


def lines_of(axes: Any) -> dict[str, tuple[list[float], list[float]]]:
    """What is drawn, by name."""
    found = {}
    for bars in axes.containers:
        line, *_ = bars
        found[bars.get_label()] = (line.get_xdata().tolist(), line.get_ydata().tolist())
    return found


def test_accuracy_by_labels_is_that_of_the_runs(store, tracker):
    given = ["labels=6,15", "steps=2,0", "supervised_steps=2", "seed=1,2"]
    results = clustering(parse(ClusterConfig, [*SMALL, *given]), store, tracker)
    figure, caption = drawing("xsdc/3").drawn(results)
    (axes,) = figure.axes
    drawn = lines_of(axes)
    assert set(drawn) == {"XSDC", "supervised steps alone"}
    for name, steps in (("XSDC", 2), ("supervised steps alone", 0)):
        for labels, mean in zip(*drawn[name], strict=True):
            some = [
                result
                for result in results
                if (result.config.method.options["steps"], float(result.config.labels or 0)) == (steps, labels)
            ]
            assert len(some) == 2
            told = [result.trials.scores["accuracy"][0] for result in some]
            assert mean == pytest.approx(100 * np.mean(told))
    assert "over 2 seeds" in caption
    assert "supervised steps alone over XSDC: " in caption
    assert caption.count(" at 6 (") == 1
    assert caption.endswith(" of 2).")


def test_eigengaps_are_those_of_the_runs(store, tracker):
    given = ["steps=4", "assignment=balancing,eigenvectors_kmeans", "penalty=0.25,0.1", "seed=1,2"]
    results = clustering(parse(ClusterConfig, [*SMALL, *given]), store, tracker)
    read = [recorded_clustering(result.config, tracker) for result in results]  # from the file of the run
    figure, caption = drawing("xsdc/13").drawn(read)
    assert [axes.get_title() for axes in figure.axes] == ["penalty 0.1", "penalty $2^{-2}$"]
    for axes, penalty in zip(figure.axes, (0.1, 0.25), strict=True):
        assert [bars.get_label() for bars in axes.containers] == ["balancing", "eigenvectors with K-means"]
        for bars, rule in zip(axes.containers, ("balancing", "eigenvectors_kmeans"), strict=True):
            some = [
                result.trials.eigengaps
                for result in results
                if (result.config.method.options["assignment"], result.config.method.options["penalty"])
                == (rule, penalty)
            ]
            assert len(some) == 2
            assert bars[0].get_xdata().tolist() == [1, 2, 3, 4]
            np.testing.assert_allclose(bars[0].get_ydata().tolist(), np.sqrt(some[0] * some[1]))
            logs = np.log(some)
            low, high = np.exp(logs.mean(axis=0) + [[-1], [1]] * logs.std(axis=0, ddof=1))
            np.testing.assert_allclose(ends(bars), np.stack([low, high], axis=1))
    assert "over 2 seeds" in caption
    assert f"at 0.1: balancing {line_end(figure.axes[0], 0)}" in caption


def line_end(axes: Any, i: int) -> str:
    return f"{axes.containers[i][0].get_ydata()[-1]:.1e}"


def test_a_map_is_of_points_of_which_nothing_is_known(store, tracker):
    """Maps of all stages are of the same points, and a point stands where the run has put it."""
    plain = [*SMALL, "labels=9", "map_points=60", "supervised_steps=3,0", "steps=2,0"]
    results = clustering(
        [one for one in parse(ClusterConfig, plain) if learned.title(one) != "2 steps"], store, tracker
    )
    read = [recorded_clustering(result.config, tracker) for result in results]
    figure, caption = drawing("xsdc/4").drawn(read[::-1])
    titles = [axes.get_title().splitlines() for axes in figure.axes]
    assert [title for title, _ in titles] == ["untrained", "3 supervised steps", "then 2 steps on all"]
    data = points_of(results[0].config)
    told = known_labels(results[0].config, data).known
    for axes, (_, accuracy) in zip(figure.axes, titles, strict=True):
        (one,) = [result for result in read if learned.title(result.config) == axes.get_title().splitlines()[0]]
        assert accuracy == f"accuracy {curves.accuracy(one):.1f} %"
        drawn = [scatter.get_offsets() for scatter in axes.collections]
        assert len(drawn) == 3
        for k, places in enumerate(drawn):
            np.testing.assert_allclose(places, one.trials.feature_map[one.trials.mapped_classes == k])
        assert sum(map(len, drawn)) == 60 == len(np.unique(one.trials.feature_map, axis=0))
    classes = [one.trials.mapped_classes.tolist() for one in read]
    assert classes[0] == classes[1] == classes[2]
    (whole,) = clustering([results[0].config.replace(map_points=90)], store, tracker)
    assert np.bincount(whole.trials.mapped_classes).tolist() == np.bincount(data.labels[~told]).tolist()
    assert "features of 60 points" in caption
    (without,) = clustering([results[0].config.replace(map_points=None)], store, tracker)
    assert without.trials.feature_map is None
    with pytest.raises(InputError, match="map_points"):
        learned.maps([without])


@pytest.mark.parametrize("name", ["xsdc_mnist", "xsdc_magic"])
def test_a_table_and_a_figure_of_the_same_have_the_same_runs(name):
    by_labels = [config.result_keys() for config in drawing("xsdc/3").configs("", [], print)]
    table = parse(ClusterConfig, [f"experiment={name}", *(["classifier=nearest"] if name == "xsdc_magic" else [])])
    assert len(table) == 3 * 2 * 3
    assert all(config.result_keys() in by_labels for config in table)
