"""Figures of methods: lines are the numbers of the runs or of formulas, and what cannot be drawn says why."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from clustering.foundation.errors import InputError
from runs.config.configs import ClusterConfig, FairConfig, parse
from runs.figures import clusterings, curves, fair, formulas, learned
from runs.figures.clusterings import chosen_labels, cluster_pictures, matched, partitions_figure
from runs.figures.formulas import FIRST
from runs.figures.papers import drawing
from runs.figures.titles import method_titles
from runs.stages.clustering.stage import clustering, points_of, stage_of
from runs.stages.clustering.trials import known_labels
from tests.oracles.entropy_loops import renyi
from tests.runs.test_figures import ends

SMALL = ["dataset=spirals", "arms=3", "points=30", "method=xsdc", "n_features=4", "starts=1", "selection=null"]


def lines_of(axes: Any) -> dict[str, tuple[list[float], list[float]]]:
    """What is drawn, by name."""
    found = {}
    for bars in axes.containers:
        line, *_ = bars
        found[bars.get_label()] = (line.get_xdata().tolist(), line.get_ydata().tolist())
    return found


SPIRALS = ["dataset=spirals", "arms=3", "points=30", "starts=1", "selection=null"]


@pytest.mark.parametrize(
    ("name", "given", "lines", "place", "differences"),
    [
        (
            "xsdc/3",
            [*SMALL, "labels=6,15", "steps=2,0", "supervised_steps=2", "seed=1,2"],
            {"XSDC": 2, "supervised steps alone": 0},
            lambda config: (config.method.options["steps"], float(config.labels or 0)),
            ("supervised steps alone over XSDC: ", " at 6 (", 1),
        ),
        (
            "entropy/11",
            [*SPIRALS, "method=labelled,labelled_reverse,labelled_absolute", "labels=40", "wrong=0,0.6", "max_iter=3",
             "seed=0,1"],
            {"cross-entropy": "labelled", "reverse": "labelled_reverse", "absolute error": "labelled_absolute"},
            lambda config: (config.method.options["objective"], 100 * config.wrong),
            ("reverse over cross-entropy: ", " at 60 (", 2),
        ),
    ],
)  # fmt: skip
def test_accuracy_along_a_setting_is_that_of_the_runs(store, tracker, name, given, lines, place, differences):
    results = clustering(parse(ClusterConfig, given), store, tracker)
    figure, caption = drawing(name).drawn(results)
    (axes,) = figure.axes
    drawn = lines_of(axes)
    assert set(drawn) == set(lines)
    for line, kind in lines.items():
        for x, mean in zip(*drawn[line], strict=True):
            told = [one.trials.scores["accuracy"][0] for one in results if place(one.config) == (kind, x)]
            assert len(told) == 2
            assert mean == pytest.approx(100 * np.mean(told))
    said, at, count = differences
    assert "over 2 seeds" in caption
    assert said in caption
    assert caption.count(at) == count
    assert caption.endswith(" of 2).")


def test_eigengaps_are_those_of_the_runs(store, tracker):
    given = ["steps=4", "assignment=balancing,eigenvectors_kmeans", "penalty=0.25,0.1", "seed=1,2"]
    results = clustering(parse(ClusterConfig, [*SMALL, *given]), store, tracker)
    read = [stage_of(result.config).find(tracker.store, tracker) for result in results]  # from the file of the run
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
    read = [stage_of(result.config).find(tracker.store, tracker) for result in results]
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


SMALL_CLUSTERS = ["dataset=spirals", "arms=3", "points=30", "starts=3", "selection=null"]


@pytest.fixture
def drawn(store, tracker):
    def make(*settings):
        configs = parse(ClusterConfig, [*SMALL_CLUSTERS, *settings])
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


def test_points_of_more_dimensions_are_drawn_in_their_plane():
    values = np.random.default_rng(0).normal(size=(20, 5))
    figure = partitions_figure(values, [("all", np.zeros(20, dtype=int))], None)
    assert figure.axes[0].collections[0].get_offsets().shape == (20, 2)


def test_titles_say_what_differs():
    configs = parse(ClusterConfig, ["method=slk_means,slk_byproduct_as_published", "weight=0.5,1"])
    assert method_titles(configs)[:2] == ["SLK-Means, weight=0.5", "SLK-Means, weight=1.0"]
    assert method_titles(configs[2:], leave_out=["weight"]) == ["SLK-BO as published"] * 2


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


@pytest.mark.slow
def test_loss_and_accuracy_by_epochs_are_those_of_the_starts(store, tracker):
    given = ["method=entropy,miadm", "pseudo_labels=batch,epoch", "max_iter=3,9", "batch_size=30", "starts=2"]
    results = clustering(parse(ClusterConfig, [*SPIRALS[:3], "selection=null", *given]), store, tracker)
    figure, caption = drawing("entropy/12").drawn(results)
    panels = [(axes.get_title(), lines_of(axes)) for axes in figure.axes]
    methods = [title for title, _ in panels[:2]]
    losses, accuracies = (
        dict(zip(methods, [lines for _, lines in row], strict=True)) for row in (panels[:2], panels[2:])
    )
    for result in results:
        options, trials = result.config.method.options, result.trials
        name = {"entropy": "entropy clustering", "miadm": "MIADM"}[
            result.config.method.name.replace("softmax", "miadm")
        ]
        line = "for each batch" if options["pseudo_labels"] == "batch" else "once an epoch"
        at = [1, 3].index(options["max_iter"] / 3)
        assert losses[name][line][0] == [1, 3], "90 points in batches of 30"
        assert losses[name][line][1][at] == pytest.approx(trials.objective.mean())
        assert accuracies[name][line][1][at] == pytest.approx(100 * trials.scores["acc_hungarian"].mean())
    assert "over 2 starts." in caption
    for method in methods:
        assert f"once an epoch over for each batch ({method}): " in caption


def test_the_shares_of_neighbours_in_one_cluster_are_those_of_the_runs(store, tracker):
    given = ["points=30", "network.views=1,0", "epochs=2", "network.batch_size=60", "seed=0,3"]
    configs = drawing("entropy/2").configs("", given, print)
    results = clustering(configs, store, tracker)
    figure, caption = drawing("entropy/2").drawn(results)
    titles = [axes.get_title() for axes in figure.axes if axes.get_title()]
    heads = ["no views, seed 0", "no views, seed 3", "1 view, seed 0", "1 view, seed 3"]
    assert [title.partition(":")[0] for title in titles] == heads
    by_head = {title.partition(": ")[0]: title.partition(": ")[2] for title in titles}
    shares = []
    for result in results:
        values, labels = points_of(result.config).values, result.trials.labels[0]
        same = []
        for i, point in enumerate(values):
            others = sorted((float(np.square(point - other).sum()), j) for j, other in enumerate(values) if j != i)
            same += [labels[j] == labels[i] for _, j in others[:5]]
        shares.append(np.mean(same))
        seen = "1 view" if result.config.network.options["views"] else "no views"
        assert by_head[f"{seen}, seed {result.config.seed}"] == f"{np.mean(same):.2f}"
    assert f"{min(shares[:2]):.2f} to {max(shares[:2]):.2f} with 1 view" in caption
    assert f"{min(shares[2:]):.2f} to {max(shares[2:]):.2f} with no views" in caption


@pytest.mark.parametrize(("figure", "experiment"), [("entropy/11", "entropy_noise"), ("entropy/12", "entropy_updates")])
def test_a_figure_is_of_the_runs_of_its_experiment(figure, experiment):
    ours = drawing(figure).configs("", [], print)
    theirs = parse(ClusterConfig, [f"experiment={experiment}"])
    assert {config.to_yaml() for config in ours} == {config.to_yaml() for config in theirs}


SMALL_FAIR = ["dataset=synthetic", "n_init=1", "max_iter=5"]


@pytest.fixture
def run(store, tracker):
    def make(*settings, weights="0,10,500"):
        configs = parse(FairConfig, [*SMALL_FAIR, f"fairness_weight={weights}", *settings])
        return clustering(configs, store, tracker)

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
    rows = result.config.dataset.build().read().values
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


SOME = (0, 250, 499, 700, 998)


def test_entropies_and_what_they_become_with_a_label() -> None:
    (curves,) = formulas.entropies().values()
    for (name, values), order in zip(curves.items(), formulas.ORDERS, strict=True):
        assert name.endswith("∞" if order == math.inf else f"{order:g}")
        assert [values[i] for i in SOME] == pytest.approx([renyi([FIRST[i], 1 - FIRST[i]], order) for i in SOME])
    for plot, order in zip(formulas.supervised().values(), (math.inf, 2), strict=True):
        entropy, known = plot.values()
        for i in SOME:
            expected = renyi([FIRST[i], 1 - FIRST[i]], order)
            assert entropy[i] == pytest.approx(expected)
            assert known[i] == pytest.approx(expected if FIRST[i] >= 0.5 else math.log(2))


def test_both_directions_of_divergence_and_cross_entropy() -> None:
    divergence, cross_entropy = (list(curves.items()) for curves in formulas.divergences().values())
    for j, pair in enumerate(((0.9, 0.1), (0.5, 0.5))):
        for i in SOME:
            p = [FIRST[i], 1 - FIRST[i]]
            both = (stats.entropy(pair, p), stats.entropy(p, pair))
            for (name, values), wanted in zip(divergence[2 * j : 2 * j + 2], both, strict=True):
                assert name.endswith(f"u = {pair}")
                assert values[i] == pytest.approx(wanted)
            own = (stats.entropy(pair), stats.entropy(p))
            for (name, values), kl, h in zip(cross_entropy[2 * j : 2 * j + 2], both, own, strict=True):
                assert name.endswith(f"y = {pair}")
                assert values[i] == pytest.approx(kl + h)


def test_the_lines_are_the_values() -> None:
    plots = formulas.divergences()
    figure, _ = formulas.curves(None, of="divergences")
    for axes, (title, lines) in zip(figure.axes, plots.items(), strict=True):
        assert axes.get_title() == title
        for line, (name, values) in zip(axes.lines, lines.items(), strict=True):
            assert line.get_label() == name
            np.testing.assert_array_equal(line.get_ydata(), values)


@pytest.mark.parametrize("order", formulas.SIMPLEX_ORDERS)
def test_losses_of_three_classes_are_as_their_caption_says(order: float) -> None:
    p = formulas.predictions()
    assert len(p) == (formulas.STEPS + 1) * (formulas.STEPS + 2) // 2
    np.testing.assert_allclose(p.sum(axis=1), 1)
    losses = [formulas.known_loss(p, order, known) for known in range(3)]
    for i in range(0, len(p), 997):
        entropy = renyi(p[i].tolist(), order)
        assert min(loss[i] for loss in losses) == pytest.approx(entropy, abs=1e-12), "self-labelling"
        assert losses[0][i] == pytest.approx(entropy if p[i, 0] == max(p[i]) else math.log(3), abs=1e-12)
    edge = formulas.known_loss(np.array([[0.501, 0.499, 0], [0.499, 0.501, 0], [0.334, 0.333, 0.333]]), order)
    assert edge[1] - edge[0] > 0.4, "a jump at the border"
    assert edge[2] == pytest.approx(math.log(3), abs=0.01), "none at the centre"
