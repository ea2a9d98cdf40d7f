"""Fair clustering as a stage: a path of weights is one run, tracked, reused, redone; and the verb on top of it."""

import dataclasses

import numpy as np
import pytest

from clustering.evaluation.protocol import random_state
from fairness.datasets import DATASETS
from runs.cli import main
from runs.config.configs import FairConfig, parse
from runs.figures.fair import cost_of_fairness
from runs.stages.clustering.stage import clustering
from runs.stages.fair.series import fronts, series_of
from runs.stages.fair.stage import FairStage
from runs.tables.trade_off import footnote, rows
from tests.runs.records import runs_of
from tests.runs.typed import latest

SMALL = ["dataset=synthetic", "fairness_weight=0,60,500", "n_init=1"]  # seconds
made_before = pytest.mark.usefixtures("made")
pytestmark = pytest.mark.usefixtures("blank_pictures")


@pytest.fixture
def asked():
    return lambda *more: parse(FairConfig, latest(*SMALL, *more))


@pytest.fixture
def one(store, tracker):
    def run(configs, **options):
        return clustering(configs, store, tracker, **options)

    return run


@pytest.fixture
def made(kept, asked):
    """The run of `asked()` is in the store."""
    kept("fair", lambda *where: clustering(asked(), *where))


@made_before
def test_a_path_of_weights_is_one_run_and_what_the_estimator_gives(asked, one, tracker):
    (result,) = one(asked())
    found, data = result.found, DATASETS.load("synthetic")().read()
    assert found.weights.tolist() == [0, 60, 500]
    assert found.labels.shape == (3, 400)
    assert found.group_counts.shape == (3, 2, 2)
    (run,) = runs_of(tracker, "fair/synthetic")
    steps = {name: tracker.client.get_metric_history(run.info.run_id, name) for name in ("objective", "fairness_error")}
    for name, points in steps.items():
        assert [point.step for point in points] == [0, 1, 2]
        assert [point.value for point in points] == pytest.approx(getattr(found, name))
    assert run.data.metrics["best_fairness_weight"] == found.weights[found.chosen] == 500
    assert run.data.params["fairness_weight"] == "[0.0, 60.0, 500.0]"
    method = result.config.method.build().set_params(n_clusters=2, random_state=random_state(0, 0))
    for step, model in enumerate(method.path(data.values, [0, 60, 500], sensitive_features=data.sensitive)):
        np.testing.assert_array_equal(model.labels_, found.labels[step])
        np.testing.assert_array_equal(model.group_counts_, found.group_counts[step])
        assert model.objective_ == pytest.approx(found.objective[step])
        rows = found.history_step == step
        assert [update.objective for update in model.history_] == pytest.approx(found.history_objective[rows])


@made_before
def test_the_price_is_that_of_the_unfair_solution_whether_it_is_asked_for_or_not(asked, one):
    (with_it,), (without,) = one(asked()), one(asked("fairness_weight=60,500"))
    np.testing.assert_allclose(without.found.price, with_it.found.price[1:])
    (rival,) = one(asked("method=fair_lloyd"))
    assert rival.found.unfair_objective == pytest.approx(with_it.found.objective[0])
    assert np.isnan(rival.found.weights).all()


def test_the_key_heeds_what_can_change_the_result_and_nothing_else(asked, tmp_path):
    def of(*more):
        return FairStage.on(asked(*more)[0]).key

    assert of() == of(f"results={tmp_path}") == of("device=cpu") == of("n_clusters=2")
    other = [of(text) for text in ("seed=1", "n_clusters=3", "fairness_weight=0,60", "n_init=2", "preprocess=null")]
    assert len({of(), *other}) == 6
    assert of("method=bera") == of("method=bera", "fairness_weight=1"), "it has no weight"


def test_a_clusterer_that_knows_of_no_groups_shows_how_fair_it_is(one, asked):
    (result,) = one(asked("method=sklearn.cluster:KMeans", "n_init=3"))
    assert result.found.fairness_error[0] > 10
    assert result.found.group_counts.sum() == 400
    assert np.isnan(result.found.price).all(), "nobody knows what its objective is"


def test_one_cluster_of_all_points_is_not_taken_for_fair_unsaid(store, capsys):
    typed = ["fair", f"results={store.root}", "dataset=tiny_fair:ThreeGroups", "method=tiny_fair:Whole"]
    for clusters, said in ((2, True), (2, True), (1, False)):  # new, reused, as asked
        assert main([*typed, f"n_clusters={clusters}"]) == 0
        seen = " ".join(capsys.readouterr().out.split())
        assert ("Whole: all points in one cluster" in seen) is said


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        (["method=fair_kmean"], "'fair_kmeans'"),
        (["dataset=adult"], "root=FOLDER"),
        (["dataset=digits"], "known: adult"),
        (["fairness_weight=-1"], "-1"),
        (["fairness_weight=[]"], "one weight"),
        (["n_clusters=201"], "n_clusters=201"),
        (["target=[0.5, 0.6]"], "sum to 1.1"),
        (["target=[lower: 1.0]"], "target lacks group 'upper'"),
        (["target=[lower, 0.5]"], "name: share"),
        (["starts=3"], "transduce cluster"),
        (["method=sklearn.svm:SVC"], "SVC"),
        (["method=sklearn.cluster:HDBSCAN"], "labels_ 0..n_clusters-1"),
        (["dataset=tiny_fair:Nameless", "n_clusters=null"], "n_clusters"),
    ],
)
def test_mistakes_are_told_in_words(typed, words, store, capsys):
    code = main(["fair", *latest(*SMALL[:2], f"results={store.root}", *typed)])
    told = capsys.readouterr().err
    assert code == 2, told
    assert words in told
    assert sum(line.startswith("transduce: ") for line in told.splitlines()) == 1


@made_before
def test_a_weight_at_which_a_cluster_is_lost_is_not_the_fairest(asked, one):
    (result,) = one(asked())
    counts, error = result.found.group_counts.copy(), result.found.fairness_error.copy()
    counts[2, :, 0], counts[2, :, 1], error[2] = counts[2].sum(axis=1), 0, 0.0
    lost = dataclasses.replace(result.found, group_counts=counts, fairness_error=error)
    assert lost.clusters.tolist() == [2, 2, 1]
    assert lost.chosen == 1
    (series,) = series_of([dataclasses.replace(result, found=lost)])
    assert series.chosen == 1
    assert 2 not in fronts([series])[0]
    (both,) = series_of([result, dataclasses.replace(result, found=lost, config=result.config.replace(seed=1))])
    assert both.chosen == 2, "the seed that lost none is known"
    assert both.mean_of_whole("fairness_error")[2] == result.found.fairness_error[2]


@made_before
def test_where_every_weight_loses_a_cluster_there_is_no_star_and_no_front(asked, one):
    (result,) = one(asked())
    counts = result.found.group_counts.copy()
    counts[:, :, 0], counts[:, :, 1] = counts.sum(axis=2), 0
    lost = dataclasses.replace(result, found=dataclasses.replace(result.found, group_counts=counts))
    assert lost.found.fairest is None
    assert lost.found.best() == {}
    shown = rows([lost], lambda config, leave_out: {})
    assert not [row for row in shown if "*" in row["weight\n"]]
    assert "*" not in footnote([lost])
    assert cost_of_fairness([lost])
    rival = dataclasses.replace(lost, config=lost.config.replace(fairness_weight=(0.0, 60.0)))
    assert fronts(series_of([rival, result]))[0] == set()
