"""Methods that learn features in steps, by the verb: live curves, interruptions, what is kept, labels and pairs."""

from pathlib import Path

import numpy as np
import pytest
import safetensors

from clustering.evaluation.protocol import scores
from clustering.files.tensors import write_tensors
from clustering.foundation.errors import InputError
from fsl.features.bank import FeatureBank
from runs.config.configs import ClusterConfig, parse
from runs.stages.clustering.learned_methods import learned_method
from runs.stages.clustering.stage import clustering, points_of
from runs.stages.clustering.trials import known_of
from tests.runs.records import runs_of
from tests.runs.stopping import Stopping

QUICK = [
    "dataset=spirals",
    "arms=3",
    "points=40",
    "method=xsdc",
    "representation=kernel",
    "n_features=8",
    "supervised_steps=20",
    "steps=25",
    "starts=1",
    "device=cpu",
]


def asked(*more: str) -> list[ClusterConfig]:
    kept = {item.partition("=")[0]: item for item in [*QUICK, *more]}
    return parse(ClusterConfig, list(kept.values()))


def test_a_run_has_curves_sizes_scores_and_what_was_learned(store, tracker, notes, tmp_path):
    config = asked("labels=12")
    (result,) = clustering(config, store, tracker, progress=notes)
    run = tracker.get(result.run_id)
    history = tracker.client.get_metric_history
    assert [point.step for point in history(result.run_id, "supervised_loss")] == [10, 20]
    assert [point.step for point in history(result.run_id, "loss")] == [30, 40, 45]
    assert [point.step for point in history(result.run_id, "entropy")] == [30, 40, 45]
    assert [point.step for point in history(result.run_id, "watched_nmi")] == [30, 40, 45]
    assert "nothing selects by them" in run.data.tags["watched"]
    assert sum(int(size) for size in run.data.tags["sizes"].split()) == 120
    assert run.data.metrics["accuracy"] == result.trials.scores["accuracy"][0]
    assert "taken to be of the same size" not in notes, "labels are of every cluster"
    bank = Path(run.data.tags["features"])
    given = ["dataset=features", f"path={bank}", "method=kmeans", "selection=null", "starts=2"]
    (learned,) = clustering(parse(ClusterConfig, given), store, tracker)
    assert learned.shape == (120, 8)
    kept = bank.with_name("network.safetensors")
    assert f"learned method: {kept}" in notes
    model, points = learned_method(kept), points_of(result.config).values
    features = FeatureBank.load(bank).features
    np.testing.assert_array_equal(model.transform(points).astype(np.float32), features)
    assert (model.predict(points) == result.trials.labels[0]).mean() > 0.9
    with pytest.raises(InputError, match=r"'transduce representation 2'.*network\.safetensors"):
        learned_method(bank)
    header = safetensors.safe_open(kept, framework="pt").metadata()
    other = tmp_path / "other.safetensors"
    write_tensors(other, model.weights(), header | {"settings": '{"n_features": 4}'})
    with pytest.raises(InputError, match=r"other\.safetensors"):
        learned_method(other)
    (again,) = clustering(config, store, tracker)
    assert again.reused


def test_an_interrupted_training_goes_on_in_its_run_and_ends_as_another(store, tracker, notes):
    config = asked("labels=12", "points=15")
    with pytest.raises(KeyboardInterrupt):
        clustering(config, store, tracker, progress=Stopping(33))
    (begun,) = runs_of(tracker, "cluster/spirals")
    (resumed,) = clustering(config, store, tracker, progress=notes)
    assert resumed.run_id == begun.info.run_id
    history = tracker.client.get_metric_history
    steps = [point.step for name in ("supervised_loss", "loss") for point in history(resumed.run_id, name)]
    assert steps == [10, 20, 30, 40, 45], "none twice"
    with pytest.raises(KeyboardInterrupt):
        clustering(config, store, tracker, progress=Stopping(22), force=True)
    (whole,) = clustering(config, store, tracker, force=True)
    assert whole.run_id != resumed.run_id
    np.testing.assert_array_equal(resumed.trials.labels, whole.trials.labels)
    assert resumed.trials.objective[0] == whole.trials.objective[0]
    assert not list(store.cache("checkpoints").glob("*.partial"))


def test_pairs_take_the_place_of_labels(store, tracker):
    short = ("points=15", "supervised_steps=10", "steps=10")
    few, many = clustering(asked("links=1,300", *short), store, tracker)
    assert few.key != many.key
    assert many.trials.scores["nmi"][0] > 0.9, "all that follows from them is known"
    assert few.trials.scores["nmi"][0] < 0.5
    (without,) = clustering(asked("points=15", "steps=1", "selection=null"), store, tracker)
    assert "accuracy" not in without.trials.scores


def test_coarse_labels_of_half_the_points_and_the_others_are_judged(store, tracker):
    short = ("supervised_steps=5", "steps=4")
    plain, coarse, both = clustering(
        asked("labels=12", *short) + asked("coarse=0", *short) + asked("labels=12", "coarse=2,0,2", *short),
        store,
        tracker,
    )
    assert len({one.key for one in (plain, coarse, both)}) == 3
    assert both.config.coarse == ("0", "2")
    true = points_of(both.config).labels
    told = known_of(both.config, points_of(both.config)).coarse
    found = both.trials.labels[0]
    assert both.trials.scores["accuracy"][0] == pytest.approx((found == true)[told < 0].mean())
    np.testing.assert_array_equal(found[told == 0], 1)
    assert "accuracy" not in coarse.trials.scores


@pytest.mark.parametrize(
    "more",
    [["labels=12", "links=60"], *(pytest.param([more], marks=pytest.mark.slow) for more in ("coarse=0", "links=60"))],
)
def test_features_are_not_judged_by_points_whose_class_they_were_learned_with(store, tracker, notes, more):
    (learned,) = clustering(asked(*more, "supervised_steps=3", "steps=3"), store, tracker)
    bank = FeatureBank.load(Path(tracker.get(learned.run_id).data.tags["features"]))
    config, data = learned.config, points_of(learned.config)
    told = known_of(config, data).told
    assert bank.provenance["told"] == str(0 if told is None else told.sum())
    assert bank.provenance["links"] == str(config.links or 0)
    given = ["dataset=features", f"path={store.cache('clustering') / learned.key / 'features.safetensors'}"]
    (found,) = clustering(parse(ClusterConfig, [*given, "method=kmeans", "starts=2"]), store, tracker, progress=notes)
    judged = np.ones(120, dtype=bool) if told is None else ~told
    expected = [scores(one[judged], data.labels[judged])["nmi"] for one in found.trials.labels]
    assert found.trials.scores["nmi"].tolist() == pytest.approx(expected)
    assert ("points whose class the features were learned with are not judged" in notes) == (told is not None)


def test_a_method_of_ones_own_is_one_if_it_has_all_that_is_needed(store, tracker, notes):
    given = ["dataset=tiny_points:Unlabelled", "n_clusters=2", "starts=1", "selection=null"]
    (found,) = clustering(parse(ClusterConfig, [*given, "method=tiny_steps:Signs"]), store, tracker, progress=notes)
    steps = tracker.client.get_metric_history(found.run_id, "loss")
    assert [point.step for point in steps] == [1, 2, 3]
    weights = store.cache("clustering") / found.key / "network.safetensors"
    points = points_of(found.config).values
    with pytest.raises(InputError, match="method='tiny_steps:Signs'"):
        learned_method(weights)
    model = learned_method(weights, "tiny_steps:Signs")
    np.testing.assert_array_equal(model.transform(points)[:, 0] > 0, found.trials.labels[0] == 1)
    (plain,) = clustering(parse(ClusterConfig, [*given, "method=tiny_steps:Counting"]), store, tracker)
    assert not (store.cache("clustering") / plain.key / "network.safetensors").exists()
    np.testing.assert_array_equal(plain.trials.labels, found.trials.labels)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["max_share=0.2"], "share"),
        (["labels=3", "links=7000"], "120 .* 3 "),
        (["representation=lenet5"], "lenet5 .*2 columns"),
        (["assignment=pseudo_labels"], "labels"),
        (["labels=15", "n_clusters=2"], "n_clusters .*3"),
        (["method=kmeans", "links=5"], "KMeans .*pairs"),
        (["coarse=9"], "coarse: .*'9'"),
        (["points=4", "labels=9", "map_points=10"], "map_points=10: only 3 points"),
        (["method=kmeans", "map_points=10"], "map_points=10: .*learned features"),
        (["method=entropy", "network=mlp", "links=5"], "links"),
        (["labels=110", "batch_size=120", "min_share=0.1", "max_share=0.34", "steps=2"], None),
    ],
)
def test_what_cannot_be(store, tracker, more, message):
    given = asked(*more) if not more[0].startswith("method=") else parse(ClusterConfig, ["dataset=spirals", *more])
    if message is None:  # just enough room
        assert clustering(given, store, tracker)
        return
    with pytest.raises(InputError, match=message):
        clustering(given, store, tracker)
