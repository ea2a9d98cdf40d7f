"""Figures of clustering: what is drawn are the numbers of the runs, and what cannot be drawn says why."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clustering.foundation.errors import InputError
from runs.config.configs import ClusterConfig, parse
from runs.figures import clusterings
from runs.figures.clusterings import chosen_labels, cluster_pictures, matched, partitions_figure
from runs.figures.papers import drawing
from runs.stages.clustering.stage import clustering, points_of

SMALL = ["dataset=spirals", "arms=3", "points=30", "starts=3", "selection=null"]


@pytest.fixture
def drawn(store, tracker):
    def make(*settings):
        configs = parse(ClusterConfig, [*SMALL, *settings])
        return clustering(configs, store, tracker)

    return make


@given(st.lists(st.integers(0, 4), min_size=1, max_size=30), st.permutations(range(5)))
def test_colours_do_not_depend_on_what_clusters_are_called(labels, names):
    classes = np.array(labels)
    same = matched(np.array(names)[classes], classes)
    assert (same == np.unique(classes, return_inverse=True)[1]).all()
    assert len(set(matched(classes, np.zeros_like(classes)))) == len(set(labels)), "no two clusters look alike"


def test_partitions_are_those_of_the_runs(drawn):
    results = drawn("method=slk_means,slk_mean_shift")
    figure, caption = drawing("thesis/0.1").drawn(results)
    for axes, result in zip(figure.axes, results, strict=False):
        (dots,) = axes.collections
        np.testing.assert_array_equal(dots.get_offsets(), points_of(result.config).values)
        trials = result.trials
        colours = [tuple(colour) for colour in dots.get_facecolor()]
        for one in range(3):
            assert len({colours[i] for i in np.flatnonzero(chosen_labels(result) == one)}) <= 1
        accuracy = trials.scores["acc_hungarian"][trials.chosen]
        assert axes.get_title().endswith(f"ACC {accuracy:.2f}")
    assert "90 points" in caption


def test_no_two_of_many_clusters_look_alike():
    labels = np.repeat(np.arange(17), 3)
    values = np.random.default_rng(0).normal(size=(51, 2))
    (axes,) = partitions_figure(values, [("many", labels)], None).axes
    looks = {}
    for dots in axes.collections:
        mark = dots.get_paths()[0].vertices.tobytes()
        for place, colour in zip(dots.get_offsets(), dots.get_facecolor(), strict=True):
            looks[tuple(place)] = (mark, tuple(colour))
    assert len({looks[tuple(place)] for place in values}) == 17
    assert all(len({looks[tuple(place)] for place in values[labels == one]}) == 1 for one in range(17))


def test_pictures_of_a_cluster_against_a_loop():
    generator = np.random.default_rng(0)
    values, labels = generator.normal(size=(30, 4)), generator.integers(0, 2, 30)
    members = [i for i in range(30) if labels[i] == 1]
    mode = members[3]
    shown = cluster_pictures(values, labels, mode, 1)
    others = sorted((i for i in members if i != mode), key=lambda i: sum((values[i] - values[mode]) ** 2))
    expected = [values[mode], sum(values[i] for i in members) / len(members), *(values[i] for i in others[:3])]
    for one, wanted in zip(shown, expected, strict=True):
        np.testing.assert_allclose(one, wanted)
    assert len(cluster_pictures(values, labels, -1, 1)) == 2


def test_modes_that_are_no_pictures_say_why(drawn):
    with pytest.raises(InputError, match="spirals"):
        clusterings.mode_images(drawn("method=slk_byproduct"))
    with pytest.raises(InputError, match="one clustering"):
        clusterings.of_one_clustering(parse(ClusterConfig, ["dataset=digits", "method=slk_byproduct", "weight=0.5,1"]))


def test_movements_are_those_of_the_run(drawn):
    (result,) = drawn("method=slk_mean_shift")
    figure, caption = drawing("thesis/2.3").drawn([result])
    movements = result.trials.mode_movements
    assert movements.shape[1] == 3
    for line, column in zip(figure.axes[0].lines, movements.T, strict=True):
        np.testing.assert_array_equal(line.get_ydata(), column)
    assert "of 3 starts" in caption
