"""Clustering as a stage: tracked, reused, redone where it was interrupted or damaged; networks and methods in steps."""

import json
from pathlib import Path

import numpy as np
import pytest
import safetensors
import torch
from PIL import Image

from clustering.evaluation.protocol import scores
from clustering.files.tensors import write_tensors
from clustering.foundation.errors import InputError
from clustering.foundation.streams import stream
from fsl.features.bank import FeatureBank
from runs.cli import main
from runs.config.configs import ClusterConfig, parse
from runs.stages.clustering.learned_methods import learned_method
from runs.stages.clustering.learning import doubts_of
from runs.stages.clustering.stage import clustering, points_of, stage_of
from runs.stages.clustering.trials import Known, known_labels, known_of, told
from tests.runs.records import runs_of
from tests.runs.stopping import Stopping
from tests.runs.typed import latest

pytestmark = pytest.mark.filterwarnings("ignore:. of 3 clusters have no points")
SMALL = ["method=slk_mean_shift", "dataset=spirals", "arms=3", "points=10", "starts=3"]
QUICK_NETWORK = ["method=entropy", "network=small_cnn", "epochs=3", "network.batch_size=30", "device=cpu"]
QUICK_STEPS = [
    *("dataset=spirals", "arms=3", "points=40", "method=xsdc", "representation=kernel", "n_features=8"),
    *("supervised_steps=20", "steps=25", "starts=1", "device=cpu"),
]
QUICK = "method=tiny_points:Halves"
SELECTION = "trials: 4\nshare: 0.2\nslk: {weight: [0.5, 0.65]}\n"


def asked_of(*typed: str) -> list[ClusterConfig]:
    return parse(ClusterConfig, latest(*typed))


def asked_steps(*more: str) -> list[ClusterConfig]:
    return asked_of(*QUICK_STEPS, *more)


@pytest.fixture
def asked(tmp_path):
    (tmp_path / "few.yaml").write_text(SELECTION)
    return lambda *more: asked_of(*SMALL, f"selection={tmp_path}/few.yaml", *more)


@pytest.fixture
def clustered(kept, asked):
    """The result of `asked()`, which is in the store."""
    (result,) = kept("clustered", lambda *where: clustering(asked(), *where))
    return result


def test_three_answers_from_trials_that_are_made_once(clustered, tracker):
    result = clustered
    trials = result.trials
    assert trials.labels.shape == (5, 30)
    assert trials.given.sum() == 3
    assert trials.tried.sum() == 4
    assert (trials.given & trials.tried).sum() == 2, "two of the trials are of both kinds"
    metrics = trials.metrics()
    assert metrics["acc_hungarian"] == trials.scores["acc_hungarian"][trials.chosen]
    assert metrics["acc_hungarian_mean"] == pytest.approx(trials.scores["acc_hungarian"][trials.given].mean())
    best = max(trials.validation[trials.tried])
    assert trials.validation[trials.selected] == best == metrics["acc_hungarian_validation"]
    assert metrics["nmi_label_selected"] == trials.held_out["nmi"][trials.selected]
    assert trials.confidence.shape == (30,)
    assert (trials.confidence > 1 / 3).all()
    run = tracker.client.get_run(result.run_id)
    assert run.data.tags["dataset"] == "spirals"
    assert "method.weight" not in run.data.params, "params are settings that differ from the defaults"
    logged = run.data.metrics
    assert {name: logged[name] for name in metrics} == pytest.approx(metrics)
    assert logged["trials"] == 5


def test_a_trial_is_what_the_estimator_gives_alone(clustered):
    result = clustered
    trials, data = result.trials, result.config.dataset.build().read()
    for i in (0, 4):
        model = result.config.method.build()
        model.set_params(n_clusters=3, random_state=int(trials.seeds[i]))
        model.set_params(**trials.settings[trials.setting[i]]).fit(data.values)
        assert (model.labels_ == trials.labels[i]).all()
        assert model.objective_ == pytest.approx(trials.objective[i])


def test_the_key_heeds_what_can_change_the_result_and_nothing_else(asked, tmp_path):
    def of(*more):
        return stage_of(asked(*more)[0]).key

    assert of() == of(f"results={tmp_path}") == of("device=cpu") == of("weight=0.65")
    other = [of(text) for text in ("seed=1", "starts=4", "n_clusters=2", "weight=0.7", "noise=0.2", "selection=null")]
    assert len({of(), *other}) == 7
    path = tmp_path / "same.yaml"
    path.write_text("slk: {weight: [0.5, 0.65]}\ntrials: 4\nshare: 0.2\n")
    assert of() == of(f"selection={path}"), "a selection counts by what it says"
    path.write_text("slk: {weight: [0.5, 0.66]}\ntrials: 4\nshare: 0.2\n")
    assert of() != of(f"selection={path}")


def test_a_method_without_a_seed_is_tried_once(asked, store, tracker, tmp_path, monkeypatch):
    monkeypatch.setenv("TINY_MARKS", str(tmp_path))
    (result,) = clustering(asked(QUICK), store, tracker)
    assert (tmp_path / "fits").read_text() == "x"
    assert result.trials.given.tolist() == result.trials.tried.tolist() == [True]
    assert result.trials.confidence is None
    assert np.isnan(result.trials.objective).all()
    assert result.trials.metrics()["seconds_optimise"] > 0, "all of a fit whose phases nobody knows"


def test_points_without_classes_have_no_scores(store, tracker, tmp_path, capsys):
    typed = ["dataset=tiny_points:Unlabelled", "method=slk_mean_shift", f"results={store.root}"]
    assert main(["cluster", *typed]) == 2
    assert "n_clusters=3" in capsys.readouterr().err
    assert not runs_of(tracker, "cluster/Unlabelled"), "found out before there is a run"
    assert main(["cluster", *typed, "n_clusters=2"]) == 0
    assert "NMI" not in (shown := capsys.readouterr().out)
    assert "40 points of 3 values, 2 clusters" in shown
    assert main(["cluster", *typed, "n_clusters=2", "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert found["reused"]
    assert not [name for name in found if name.startswith(("nmi", "acc"))]


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        (["dataset=mnits"], "'mnist'"),
        (["dataset=mnist"], "root=FOLDER"),
        (["method=slk"], None),
        (["wieght=1"], "weight"),
        (["starts=0"], "starts"),
        (["n_clusters=2000"], "n_clusters=2000"),
        (["selection=paper"], "papers"),
        (["benchmark=glyphs"], "transduce train"),
        (["method=sklearn.cluster.HDBSCAN"], "method=sklearn.cluster:HDBSCAN"),
        (["method=sklearn.svm:SVC"], "SVC"),
        (["method=sklearn.mixture:GaussianMixture", "n_components=2"], "labels_"),
        ([*SMALL, "selection=share: 2"], "share"),
        ([*SMALL, "selection=trials: 1\nslk: {weight: [1.0, 2.0]}"], "2 settings"),
        ([*SMALL, "selection=slk: {wieght: [1.0]}"], "weight"),
    ],
)
def test_mistakes_are_told_in_words(typed, words, store, capsys, tmp_path):
    *others, last = typed
    if ": " in last:  # what the file says
        (tmp_path / "mine.yaml").write_text(last.removeprefix("selection=") + "\n")
        typed = [*others, f"selection={tmp_path}/mine.yaml"]
    code = main(["cluster", f"results={store.root}", *typed, *(["--dry-run"] if words is None else [])])
    told = capsys.readouterr().err
    assert code == (0 if words is None else 2), told
    assert words is None or words in told


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    """Stripes across, down, and none: 30 of each, 8 x 8, with noise."""
    rng, folder = stream(0, "test pictures"), tmp_path / "pictures"
    stripe = np.tile([220, 220, 30, 30], (8, 2))
    for name, pattern in {"across": stripe.T, "down": stripe, "plain": np.full((8, 8), 120)}.items():
        (folder / name).mkdir(parents=True)
        for i in range(30):
            noisy = np.clip(pattern + rng.normal(0, 20, (8, 8)), 0, 255).astype(np.uint8)
            Image.fromarray(noisy).save(folder / name / f"{i}.png")
    return folder


@pytest.fixture
def asked_network(pictures: Path):
    return lambda *more: asked_of("dataset=folder", f"root={pictures}", "size=8", "colour=grey", *QUICK_NETWORK, *more)


def test_a_run_has_curves_sizes_scores_and_what_was_learned(asked_network, store, tracker, notes):
    (result,) = clustering(asked_network(), store, tracker, progress=notes)
    run = tracker.client.get_run(result.run_id)
    curve = [point.value for point in tracker.client.get_metric_history(result.run_id, "loss")]
    assert len(curve) == 3
    watched = tracker.client.get_metric_history(result.run_id, "watched_nmi")
    assert [point.step for point in watched] == [1, 2, 3]
    shares = [run.data.metrics[f"cluster_sizes/{k}"] for k in range(3)]
    assert sum(shares) == pytest.approx(1)
    assert run.data.metrics["acc_hungarian"] == result.trials.scores["acc_hungarian"][0]
    assert "taken to be of the same size" in notes
    assert "reading folder" in notes
    assert FeatureBank.load(Path(run.data.tags["features"])).features.shape == (90, 128)
    (again,) = clustering(asked_network(), store, tracker, progress=notes)
    assert again.reused
    assert again.run_id == result.run_id


@pytest.mark.parametrize(
    ("kind", "first", "second"), [pytest.param("network", 200, 100, marks=pytest.mark.slow), ("steps", 33, 22)]
)
def test_an_interrupted_training_goes_on_in_its_run_and_ends_as_another(
    asked_network, store, tracker, notes, kind, first, second
):
    config = asked_network() if kind == "network" else asked_steps("labels=12", "points=15")
    with pytest.raises(KeyboardInterrupt):
        clustering(config, store, tracker, progress=Stopping(first))
    (begun,) = runs_of(tracker, f"cluster/{config[0].dataset.name}")
    (resumed,) = clustering(config, store, tracker, progress=notes)
    assert resumed.run_id == begun.info.run_id
    assert tracker.client.get_run(resumed.run_id).info.status == "FINISHED"
    history = tracker.client.get_metric_history
    if kind == "network":
        assert "went on after epoch 2" in notes
    else:
        steps = [point.step for name in ("supervised_loss", "loss") for point in history(resumed.run_id, name)]
        assert steps == [10, 20, 30, 40, 45], "none twice"
    with pytest.raises(KeyboardInterrupt):
        clustering(config, store, tracker, progress=Stopping(second), force=True)
    (whole,) = clustering(config, store, tracker, force=True)
    assert whole.run_id != resumed.run_id
    np.testing.assert_array_equal(resumed.trials.labels, whole.trials.labels)
    np.testing.assert_array_equal(resumed.trials.confidence, whole.trials.confidence)
    assert resumed.trials.objective[0] == whole.trials.objective[0]
    assert not list(store.cache("checkpoints").glob("*.partial"))


def test_a_result_that_is_far_from_sure_or_from_the_prior_is_warned_of(asked_network, store, tracker, notes):
    (unsure,) = clustering(asked_network("epochs=1"), store, tracker, progress=notes)
    assert unsure.trials.confidence.mean() < 0.6
    (said,) = (note for note in notes.notes if "do not rely on" in note)
    assert "it is far from sure of its clusters" in said
    assert "it took 3 steps, and most need some hundred: give more, as epochs=100" in said
    prior, one = torch.full((3,), 1 / 3), torch.full((90, 3), -20.0)
    one[:, 0] = 0.0
    even = torch.where(torch.arange(90)[:, None] % 3 == torch.arange(3), 0.0, -20.0)
    assert not doubts_of(even, Known(), prior)
    assert not doubts_of(one, Known(), None)
    (doubt,) = doubts_of(one, Known(), prior)
    assert doubt == "a cluster has 100% of the points where 33% are expected"


@pytest.mark.slow
def test_known_labels_name_the_clusters_and_the_others_are_judged(asked_network, store, tracker, pictures, tmp_path):
    (some,) = clustering(asked_network("epochs=12", "labels=15"), store, tracker)
    assert some.trials.scores["accuracy"][0] > 0.6
    (none,) = clustering(asked_network("epochs=1", "labels=0"), store, tracker)
    assert "accuracy" not in none.trials.scores
    assert none.key == stage_of(asked_network("epochs=1")[0]).key, "no labels are none"
    path = tmp_path / "labels.csv"
    path.write_text("file,label\nacross/0.png,across\ndown/3.png,down\n")
    (found,) = clustering(asked_network(f"labels={path}", "classes=null"), store, tracker)
    assert found.n_clusters == 2
    assert not found.trials.scores
    names = sorted(f"{part.parent.name}/{part.name}" for part in pictures.rglob("*.png"))
    assert found.trials.labels[0][names.index("across/0.png")] == 0
    assert found.trials.labels[0][names.index("down/3.png")] == 1


@pytest.mark.slow
def test_wrong_labels_are_told_to_what_smooths_labels_and_not_to_the_judge(asked_network, store, tracker):
    given = ["method=labelled_reverse", "epochs=4", "labels=60", "views=0"]
    right, wrong = clustering(asked_network(*given, "wrong=0,0.5"), store, tracker)
    assert right.key == stage_of(asked_network(*given)[0]).key, "none are wrong where nothing is said"
    assert right.key != wrong.key
    known = known_labels(wrong.config, points_of(wrong.config)).known
    truth = points_of(wrong.config).labels
    for result in (right, wrong):
        found = result.trials.labels[0]
        assert result.trials.scores["accuracy"][0] == pytest.approx((found == truth)[~known].mean())
    assert (right.trials.labels[0] == truth)[known].all()
    assert not (wrong.trials.labels[0] == truth)[known].all()
    smoothing = [told(one.config).network_objective().smoothing for one in (right, wrong)]
    assert smoothing == [0, 0.5]
    (config,) = asked_network(*given, "wrong=0.5", "smoothing=0.1")
    assert told(config).network_objective().smoothing == 0.1
    (config,) = asked_network("method=sela", "labels=60", "wrong=0.5")
    assert told(config).network_objective() == told(asked_network("method=sela")[0]).network_objective()


def test_pseudo_labels_short_of_their_tolerance_are_said_once(asked_network, store, tracker, notes):
    clustering(asked_network("method=tiny_hasty:Hasty", "epochs=1"), store, tracker, progress=notes)
    assert len([note for note in notes.notes if "pseudo-labels of a batch by em did not converge" in note]) == 1
    assert len([note for note in notes.notes if "clusters have no points" in note]) <= 1


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["method=kmeans"], "method=kmeans .*entropy"),
        (["method=labelled"], "'labelled'"),
        (["method=iic", "prior=[2, 1, 1]"], "prior: objective .iic. has no prior"),
        (["wrong=0.3"], "wrong"),
        (["wrong=0.3", "labels=labels.csv"], "wrong"),
        (["wrong=1.3", "labels=9"], "wrong .*0 and 1"),
        (["starts=3"], "starts"),
        (["network=small_cn"], "small_cn"),
        (["inner=4"], "4 x 4 .*8 x 8 .*inner"),
        (["links=10"], "links"),
        (["method=iic", "views=0"], "at least one view"),
        (["prior=foo"], "prior .*'balanced' or 3 numbers"),
        (["labels=90"], "labels"),
        (["labels=100%"], "labels=100% "),
        (["labels=none.csv"], "labels=none.csv: "),
        (["labels=15", "n_clusters=2"], "n_clusters .*3"),
        ([*QUICK_STEPS, "max_share=0.2"], "share"),
        ([*QUICK_STEPS, "labels=3", "links=7000"], "120 .* 3 "),
        ([*QUICK_STEPS, "representation=lenet5"], "lenet5 .*2 columns"),
        ([*QUICK_STEPS, "assignment=pseudo_labels"], "labels"),
        ([*QUICK_STEPS, "labels=15", "n_clusters=2"], "n_clusters .*3"),
        (["dataset=spirals", "method=kmeans", "links=5"], "KMeans .*pairs"),
        ([*QUICK_STEPS, "coarse=9"], "coarse: .*'9'"),
        ([*QUICK_STEPS, "points=4", "labels=9", "map_points=10"], "map_points=10: only 3 points"),
        (["dataset=spirals", "method=kmeans", "map_points=10"], "map_points=10: .*learned features"),
        (["dataset=spirals", "method=entropy", "network=mlp", "links=5"], "links"),
    ],
)
def test_what_cannot_be(asked_network, store, tracker, more, message):
    asked, name = (asked_of, "spirals") if "dataset=spirals" in more else (asked_network, "folder")
    with pytest.raises(InputError, match=message):
        clustering(asked(*more), store, tracker)
    assert name == "spirals" or not tracker.exists() or not runs_of(tracker, "cluster/folder"), "no failed run"


def test_labels_that_leave_just_enough_room(store, tracker):
    given = asked_steps("labels=110", "batch_size=120", "min_share=0.1", "max_share=0.34", "steps=2")
    assert clustering(given, store, tracker)


def test_a_run_has_curves_sizes_scores_and_what_was_learned_in_steps(store, tracker, notes, tmp_path):
    config = asked_steps("labels=12")
    (result,) = clustering(config, store, tracker, progress=notes)
    run = tracker.client.get_run(result.run_id)
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


def test_pairs_take_the_place_of_labels(store, tracker):
    short = ("points=15", "supervised_steps=10", "steps=10")
    few, many = clustering(asked_steps("links=1,300", *short), store, tracker)
    assert few.key != many.key
    assert many.trials.scores["nmi"][0] > 0.9, "all that follows from them is known"
    assert few.trials.scores["nmi"][0] < 0.5
    (without,) = clustering(asked_steps("points=15", "steps=1", "selection=null"), store, tracker)
    assert "accuracy" not in without.trials.scores


def test_coarse_labels_of_half_the_points_and_the_others_are_judged(store, tracker):
    short = ("supervised_steps=5", "steps=4")
    plain, coarse, both = clustering(
        asked_steps("labels=12", *short)
        + asked_steps("coarse=0", *short)
        + asked_steps("labels=12", "coarse=2,0,2", *short),
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
    (learned,) = clustering(asked_steps(*more, "supervised_steps=3", "steps=3"), store, tracker)
    bank = FeatureBank.load(Path(tracker.client.get_run(learned.run_id).data.tags["features"]))
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
