"""Figures of XSDC: lines are the numbers of the runs, and captions have their differences, above or below 0."""

from typing import Any

import numpy as np
import pytest

from clustering.foundation.errors import InputError
from runs.config.configs import ClusterConfig, parse
from runs.figures import xsdc_curves as xsdc
from runs.figures import xsdc_maps
from runs.figures.accuracy_along import ACCURACY, by_seed, differences, lines_figure
from runs.figures.papers import drawing, drawn
from runs.stages.clustering.stage import clustering, points_of, recorded_clustering
from runs.stages.clustering.trials import known_labels

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
    figure = xsdc.BY_LABELS.draw(results)
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
    caption = xsdc.BY_LABELS.caption(results)
    assert "over 2 seeds" in caption
    assert "supervised steps alone over XSDC: " in caption
    assert caption.count(" at 6 (") == 1
    assert caption.endswith(" of 2).")


def test_eigengaps_are_those_of_the_runs(store, tracker):
    given = ["steps=4", "assignment=balancing,eigenvectors_kmeans", "penalty=0.25,0.1", "seed=1,2"]
    results = clustering(parse(ClusterConfig, [*SMALL, *given]), store, tracker)
    read = [recorded_clustering(result.config, tracker) for result in results]  # from the file of the run
    figure = xsdc_maps.EIGENGAPS.draw(read)
    assert [axes.get_title() for axes in figure.axes] == ["penalty 0.1", "penalty $2^{-2}$"]
    for axes, penalty in zip(figure.axes, (0.1, 0.25), strict=True):
        assert [line.get_label() for line in axes.get_lines()] == ["balancing", "eigenvectors with K-means"]
        for line, rule in zip(axes.get_lines(), ("balancing", "eigenvectors_kmeans"), strict=True):
            some = [
                result.trials.eigengaps
                for result in results
                if (result.config.method.options["assignment"], result.config.method.options["penalty"])
                == (rule, penalty)
            ]
            assert len(some) == 2
            assert line.get_xdata().tolist() == [1, 2, 3, 4]
            np.testing.assert_allclose(line.get_ydata(), np.sqrt(some[0] * some[1]))
    caption = xsdc_maps.EIGENGAPS.caption(read)
    assert "over 2 seeds" in caption
    assert f"at 0.1: balancing {line_end(figure.axes[0], 0)}" in caption
    longer = clustering(
        parse(ClusterConfig, [*SMALL, "steps=5", "penalty=0.1", "assignment=balancing"]), store, tracker
    )
    with pytest.raises(InputError, match="steps"):
        xsdc_maps.EIGENGAPS.draw([*results, *longer])


def line_end(axes: Any, i: int) -> str:
    return f"{axes.get_lines()[i].get_ydata()[-1]:.1e}"


def test_a_map_is_of_points_of_which_nothing_is_known(store, tracker):
    """Maps of all stages are of the same points, and a point stands where the run has put it."""
    plain = [*SMALL, "labels=9", "map_points=60", "supervised_steps=3,0", "steps=2,0"]
    results = clustering(
        [one for one in parse(ClusterConfig, plain) if xsdc_maps.title(one) != "2 steps"], store, tracker
    )
    read = [recorded_clustering(result.config, tracker) for result in results]
    figure = xsdc_maps.STAGES.draw(read[::-1])
    titles = [axes.get_title().splitlines() for axes in figure.axes]
    assert [title for title, _ in titles] == ["untrained", "3 supervised steps", "then 2 steps on all"]
    data = points_of(results[0].config)
    told = known_labels(results[0].config, data).known
    for axes, (_, accuracy) in zip(figure.axes, titles, strict=True):
        (one,) = [result for result in read if xsdc_maps.title(result.config) == axes.get_title().splitlines()[0]]
        assert accuracy == f"accuracy {100 * by_seed(one)[0]:.1f} %"
        drawn = [scatter.get_offsets() for scatter in axes.collections]
        assert len(drawn) == 3
        for k, places in enumerate(drawn):
            np.testing.assert_allclose(places, one.trials.feature_map[one.trials.mapped_classes == k])
        assert sum(map(len, drawn)) == 60 == len(np.unique(one.trials.feature_map, axis=0))
    classes = [one.trials.mapped_classes.tolist() for one in read]
    assert classes[0] == classes[1] == classes[2]
    (whole,) = clustering([results[0].config.replace(map_points=90)], store, tracker)
    assert np.bincount(whole.trials.mapped_classes).tolist() == np.bincount(data.labels[~told]).tolist()
    assert "features of 60 points" in xsdc_maps.STAGES.caption(read)
    (without,) = clustering([results[0].config.replace(map_points=None)], store, tracker)
    assert without.trials.feature_map is None
    with pytest.raises(InputError, match="map_points"):
        xsdc_maps.STAGES.draw([without])


def test_a_map_of_nothing_is_refused_before_the_training(store, tracker, monkeypatch):
    monkeypatch.setattr("runs.stages.clustering.learning.fit_all", None)
    few = parse(ClusterConfig, ["dataset=spirals", "arms=3", "points=4", *SMALL[3:], "labels=9", "map_points=10"])
    with pytest.raises(InputError, match="map_points=10: only 3 points"):
        clustering(few, store, tracker)
    with pytest.raises(InputError, match=r"map_points=10: .*learned features"):
        clustering(parse(ClusterConfig, ["dataset=spirals", "method=kmeans", "map_points=10"]), store, tracker)


def test_differences_are_of_the_same_seeds():
    lines = {"b": {50: {2: 0.75, 1: 0.6}, 100: {1: 0.5}}, "a": {50: {1: 0.8, 2: 0.7, 3: 0.9}, 500: {1: 0.9}}}
    assert differences({"digits": lines}).endswith(" above 0: a over b: +7.5 at 50 (1 of 2).")
    assert "; a over b (two): " in differences({"one": lines, "two": lines})
    assert differences({"digits": {"a": lines["a"]}}) == ""


def test_a_panel_for_each_and_a_power_of_two_for_what_is_one():
    panels = {"one": {"a": {0.25: {1: 0.5}, 0.5: {1: 0.6}}}, "two": {"b": {1.0: {1: 0.5, 2: 0.7}}}}
    figure = lines_figure([(ACCURACY, panels)], {"one": "step", "two": "penalty"}, logarithmic=True)
    assert [axes.get_xlabel() for axes in figure.axes] == ["step", "penalty"]
    assert [axes.get_title() for axes in figure.axes] == ["one", "two"]
    assert all(axes.get_xscale() == "log" for axes in figure.axes)
    assert lines_of(figure.axes[1])["b"] == ([1.0], [pytest.approx(60)])


def test_all_names_stand_in_the_picture():
    names = ("XSDC", "K-means, linear", "K-means, inverse covariance", "K-means, gaussian")
    lines = {name: {50.0: {1: 0.5}} for name in names}
    figure = lines_figure([(ACCURACY, {"digits": lines})], "known labels")
    (legend,) = figure.legends
    figure.canvas.draw()
    box = legend.get_window_extent()
    assert 0 <= box.x0 < box.x1 <= figure.bbox.width


@pytest.mark.parametrize("name", ["xsdc_mnist", "xsdc_magic"])
def test_a_table_and_a_figure_of_the_same_have_the_same_runs(name):
    by_labels = [config.result_keys() for config in drawing("xsdc/3").configs("xsdc/3", "", [], print)]
    table = parse(ClusterConfig, [f"experiment={name}", *(["classifier=nearest"] if name == "xsdc_magic" else [])])
    assert len(table) == 3 * 2 * 3
    assert all(config.result_keys() in by_labels for config in table)


def test_configs_of_the_figures():
    """Seeds are paired, and what varies is what the axis shows."""
    by_labels = drawing("xsdc/3").configs("xsdc/3", "", [], print)
    assert {config.seed for config in by_labels} == {1, 2, 3}
    known = {(config.dataset.name, config.asked_labels(), xsdc.stage(config)) for config in by_labels}
    assert {dataset for dataset, _, _ in known} == {"mnist", "magic"}
    assert {labels for _, labels, _ in known} == {None, 50, 100, 500}
    assert {stage for _, _, stage in known} == {"XSDC", "supervised steps alone", "untrained"}
    assert len(by_labels) == 3 * len(known)
    gaps, unlabelled = (drawing(name).configs(name, "", [], print) for name in ("xsdc/13", "xsdc/12"))
    assert gaps == unlabelled, "figures 12 and 13 are of the same runs"
    assert {config.method.options["assignment"] for config in gaps} == {
        "balancing",
        "eigenvectors",
        "eigenvectors_kmeans",
    }
    by_assignment = drawing("xsdc/6").configs("xsdc/6", "", ["seed=1,2"], print)
    assert len(by_assignment) == 3 * 3 * 2
    sensitivity = drawing("xsdc/11").configs("xsdc/11", "", ["seed=1"], print)
    assert len(sensitivity) == 15


@pytest.mark.parametrize("name", [name for name in drawn() if name.startswith("xsdc/")])
def test_every_figure_has_a_small_variant(name):
    """Digits of scikit-learn: nothing to fetch, and few steps in small batches."""
    configs = drawing(name).configs(name, "digits", [], print)
    assert {config.dataset.name for config in configs} <= {"digits", "digits_uneven"}
    assert {config.seed for config in configs} == ({1} if name in ("xsdc/4", "xsdc/7") else {1, 2, 3})
    for config in configs:
        options = config.method.options
        assert options.get("steps", 0) <= 60
        assert options.get("batch_size", 512) <= 512
