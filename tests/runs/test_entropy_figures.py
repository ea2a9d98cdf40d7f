"""Figures of entropy clustering that follow a setting: lines are the numbers of the runs."""

import numpy as np
import pytest

from runs.config.configs import ClusterConfig, parse
from runs.figures.papers import drawing
from runs.stages.clustering.stage import clustering, points_of
from tests.runs.test_xsdc_figures import lines_of

SPIRALS = ["dataset=spirals", "arms=3", "points=30", "starts=1", "selection=null"]


def test_accuracy_by_wrong_labels_is_that_of_the_runs(store, tracker):
    given = ["method=labelled,labelled_reverse,labelled_absolute", "labels=40", "wrong=0,0.6", "max_iter=3"]
    results = clustering(parse(ClusterConfig, [*SPIRALS, *given, "seed=0,1"]), store, tracker)
    figure, caption = drawing("entropy/11").drawn(results)
    (axes,) = figure.axes
    drawn = lines_of(axes)
    assert set(drawn) == {"cross-entropy", "reverse", "absolute error"}
    for name, method in zip(drawn, ("labelled", "labelled_reverse", "labelled_absolute"), strict=True):
        for percent, mean in zip(*drawn[name], strict=True):
            told = [
                result.trials.scores["accuracy"][0]
                for result in results
                if (result.config.method.options["objective"], 100 * result.config.wrong) == (method, percent)
            ]
            assert len(told) == 2
            assert mean == pytest.approx(100 * np.mean(told))
    assert "over 2 seeds." in caption
    assert "reverse over cross-entropy: " in caption
    assert caption.count(" at 60 (") == 2


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
