"""Networks that learn to cluster, by the verb: live curves, interruptions, what is kept and clustered again, labels."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from clustering.foundation.errors import InputError
from clustering.foundation.streams import stream
from runs.config.configs import ClusterConfig, parse
from runs.stages.clustering.learning import doubts_of
from runs.stages.clustering.stage import clustering, points_of, stage_of
from runs.stages.clustering.trials import Known, known_labels, told
from tests.runs.records import runs_of
from tests.runs.stopping import Stopping

QUICK = ["method=entropy", "network=small_cnn", "epochs=3", "network.batch_size=30", "device=cpu"]
pytestmark = pytest.mark.filterwarnings("ignore:. of 3 clusters have no points")


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
def asked(pictures: Path):
    def make(*more: str) -> list[ClusterConfig]:
        given = ["dataset=folder", f"root={pictures}", "size=8", "colour=grey", *QUICK]
        kept = {item.partition("=")[0]: item for item in [*given, *more]}
        return parse(ClusterConfig, list(kept.values()))

    return make


def test_a_run_has_curves_sizes_scores_and_what_was_learned(asked, store, tracker, notes):
    (result,) = clustering(asked(), store, tracker, progress=notes)
    run = tracker.get(result.run_id)
    curve = [point.value for point in tracker.client.get_metric_history(result.run_id, "loss")]
    assert len(curve) == 3
    watched = tracker.client.get_metric_history(result.run_id, "watched_nmi")
    assert [point.step for point in watched] == [1, 2, 3]
    assert "nothing selects by them" in run.data.tags["watched"]
    assert sum(int(size) for size in run.data.tags["sizes"].split()) == 90
    shares = [run.data.metrics[f"cluster_sizes/{k}"] for k in range(3)]
    assert sum(shares) == pytest.approx(1)
    assert run.data.metrics["acc_hungarian"] == result.trials.scores["acc_hungarian"][0]
    assert "taken to be of the same size" in notes
    assert "reading folder" in notes
    bank = Path(run.data.tags["features"])
    (learned,) = clustering(
        parse(ClusterConfig, ["dataset=features", f"path={bank}", "method=kmeans", "selection=null", "starts=2"]),
        store,
        tracker,
    )
    assert learned.shape == (90, 128)
    assert learned.n_clusters == 3
    (again,) = clustering(asked(), store, tracker, progress=notes)
    assert again.reused
    assert again.run_id == result.run_id


@pytest.mark.slow
def test_an_interrupted_training_goes_on_in_its_run_and_ends_as_another(asked, store, tracker, notes):
    config = asked()
    with pytest.raises(KeyboardInterrupt):
        clustering(config, store, tracker, progress=Stopping(200))
    (begun,) = runs_of(tracker, "cluster/folder")
    (resumed,) = clustering(config, store, tracker, progress=notes)
    assert resumed.run_id == begun.info.run_id
    assert "went on after epoch 2" in notes
    assert tracker.get(resumed.run_id).info.status == "FINISHED"
    with pytest.raises(KeyboardInterrupt):
        clustering(config, store, tracker, progress=Stopping(100), force=True)
    (whole,) = clustering(config, store, tracker, force=True)
    assert whole.run_id != resumed.run_id
    np.testing.assert_array_equal(resumed.trials.confidence, whole.trials.confidence)
    assert not list(store.cache("checkpoints").glob("*.partial"))
    (other,) = clustering(asked("seed=1"), store, tracker)
    assert (other.trials.confidence != whole.trials.confidence).any()


def test_a_result_that_is_far_from_sure_or_from_the_prior_is_warned_of(asked, store, tracker, notes):
    (unsure,) = clustering(asked("epochs=1"), store, tracker, progress=notes)
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
def test_known_labels_name_the_clusters_and_the_others_are_judged(asked, store, tracker, pictures, tmp_path):
    (some,) = clustering(asked("epochs=12", "labels=15"), store, tracker)
    assert some.trials.scores["accuracy"][0] > 0.6
    (none,) = clustering(asked("epochs=1", "labels=0"), store, tracker)
    assert "accuracy" not in none.trials.scores
    assert none.key == stage_of(asked("epochs=1")[0]).key, "no labels are none"
    path = tmp_path / "labels.csv"
    path.write_text("file,label\nacross/0.png,across\ndown/3.png,down\n")
    (found,) = clustering(asked(f"labels={path}", "classes=null"), store, tracker)
    assert found.n_clusters == 2
    assert not found.trials.scores
    names = sorted(f"{part.parent.name}/{part.name}" for part in pictures.rglob("*.png"))
    assert found.trials.labels[0][names.index("across/0.png")] == 0
    assert found.trials.labels[0][names.index("down/3.png")] == 1


@pytest.mark.slow
def test_wrong_labels_are_told_to_what_smooths_labels_and_not_to_the_judge(asked, store, tracker):
    given = ["method=labelled_reverse", "epochs=4", "labels=60", "views=0"]
    right, wrong = clustering(asked(*given, "wrong=0,0.5"), store, tracker)
    assert right.key == stage_of(asked(*given)[0]).key, "none are wrong where nothing is said"
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
    (config,) = asked(*given, "wrong=0.5", "smoothing=0.1")
    assert told(config).network_objective().smoothing == 0.1
    (config,) = asked("method=sela", "labels=60", "wrong=0.5")
    assert told(config).network_objective() == told(asked("method=sela")[0]).network_objective()


def test_pseudo_labels_short_of_their_tolerance_are_said_once(asked, store, tracker, notes):
    clustering(asked("method=tiny_hasty:Hasty", "epochs=1"), store, tracker, progress=notes)
    assert len([note for note in notes.notes if "pseudo-labels of a batch by em did not converge" in note]) == 1
    assert len([note for note in notes.notes if "clusters have no points" in note]) <= 1


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["method=kmeans"], "method=kmeans .*entropy"),
        (["method=labelled"], "'labelled'"),
        (["method=iic", "prior=[2, 1, 1]"], "prior "),
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
    ],
)
def test_what_cannot_be(asked, store, tracker, more, message):
    with pytest.raises(InputError, match=message):
        clustering(asked(*more), store, tracker)
    assert not tracker.exists() or not runs_of(tracker, "cluster/folder"), "no failed run"
