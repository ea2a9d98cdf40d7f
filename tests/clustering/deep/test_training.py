"""Training of networks and of phases: planted clusters are found, interruptions change nothing, mistakes are said."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from clustering.constraints import constraints
from clustering.deep.objectives import Entropy, MutualInformation
from clustering.deep.settings import DeepTraining
from clustering.deep.training import DeepTrained, train
from clustering.deep.xsdc.networks import Perceptron
from clustering.deep.xsdc.reversal import Reversal, Solver
from clustering.deep.xsdc.training import STATE, Phase, TrainedPhases
from clustering.deep.xsdc.training import train as train_phases
from clustering.foundation.errors import InputError
from clustering.foundation.streams import stream
from clustering.metrics import accuracy

CLUSTERS = 3
pytestmark = pytest.mark.filterwarnings("ignore:. of 3 clusters have no points")  # after an epoch or two


def blobs(points: int = 240) -> tuple[Tensor, np.ndarray]:
    """Far apart, in 6 dimensions, and the cluster of each."""
    rng = stream(0, "test blobs")
    labels = np.arange(points) % CLUSTERS
    values = 6 * np.eye(CLUSTERS, 6)[labels] + rng.normal(size=(points, 6))
    return torch.from_numpy(values).float(), labels


def shaken(points: Tensor, generator: torch.Generator) -> Tensor:
    return points + 0.5 * torch.randn(points.shape, generator=generator)


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.1))


def run(points: Tensor, epochs: int = 3, objective: Any = None, **options: Any) -> DeepTrained:
    fields = options.pop("training", {})
    training = DeepTraining(**{"epochs": epochs, "batch_size": 60, "learning_rate": 1e-2, **fields})
    options = {"prior": np.ones(CLUSTERS), "augment": shaken, **options}
    return train(options.pop("network", network), points, CLUSTERS, objective or Entropy(), training, **options)


class Recorder:
    """Curves and labels as they come; it breaks off at a step."""

    def __init__(self, stop: int | None = None) -> None:
        self.values: dict[int, Mapping[str, float]] = {}
        self.found: list[np.ndarray] = []
        self.steps = 0
        self.stop = stop

    def metrics(self, values: Mapping[str, float], step: int) -> None:
        self.values[step] = values
        if step == self.stop:
            raise KeyboardInterrupt

    def observe(self, labels: np.ndarray) -> Mapping[str, float]:
        self.found.append(labels.copy())
        return {"watched": float(len(self.found)), "left_out": float((labels < 0).sum())}

    def advance(self, n: int = 1, **numbers: float) -> None:
        self.steps += n

    @property
    def watch(self) -> dict[str, Any]:
        return {"log": self, "observe": self.observe, "advance": self.advance}


@pytest.mark.parametrize("objective", [Entropy(), MutualInformation()], ids=str)
def test_far_clusters_are_found(objective: Any) -> None:
    points, truth = blobs()
    log = Recorder()
    best = max(
        (run(points, epochs=15, objective=objective, seed=seed, log=log) for seed in range(2)),
        key=lambda found: accuracy(truth, found.labels),
    )
    assert accuracy(truth, best.labels) > 0.98
    assert best.sizes.sum() == len(points)
    sizes = {f"cluster_sizes/{k}" for k in range(CLUSTERS)}
    first, *_, last = log.values.values()
    assert set(first) == {"loss", "entropy", "smallest_cluster", "largest_cluster", *sizes}
    assert sum(first[name] for name in sizes) == pytest.approx(1)
    assert last["entropy"] < first["entropy"]


def test_what_an_epoch_saw_is_observed_and_every_point_counted() -> None:
    points, _ = blobs(250)  # ten are left out of each epoch
    seen = Recorder()
    run(points, epochs=2, **seen.watch)
    assert [values["left_out"] for values in seen.values.values()] == [10, 10]
    assert all(set(np.unique(clusters)) <= {-1, 0, 1, 2} for clusters in seen.found)
    assert seen.steps == 480
    plain = run(points, epochs=2)
    assert np.array_equal(plain.labels, run(points, epochs=2, observe=seen.observe).labels), "looking changes nothing"


@pytest.mark.parametrize("relabel", ["batch", "epoch"])
def test_an_interrupted_training_goes_on_as_if_it_had_not_been(tmp_path: Path, relabel: Any) -> None:
    points, _ = blobs()
    before = torch.get_rng_state()
    given = {"seed": 5, "relabel": relabel}
    whole = run(points, **given)
    with pytest.raises(KeyboardInterrupt):
        run(points, **given, folder=tmp_path, log=Recorder(2))
    resumed = run(points, **given, folder=tmp_path)
    assert resumed.resumed_at == 1  # the second epoch was not saved yet
    for name, value in whole.model.state_dict().items():
        assert torch.equal(value, resumed.model.state_dict()[name]), name
    assert torch.equal(torch.get_rng_state(), before)
    again = run(points, **given, folder=tmp_path)
    assert again.resumed_at == 3
    assert np.array_equal(again.labels, whole.labels)
    assert not np.array_equal(
        run(points, seed=6).model.head.weight.detach().numpy(), whole.model.head.weight.detach().numpy()
    )


def test_a_folder_of_another_training_and_a_damaged_state(tmp_path: Path) -> None:
    points, _ = blobs()
    run(points, epochs=1, folder=tmp_path)
    for other in (
        {"seed": 1},
        {"training": {"margin_weight": 0.5}},
        {"objective": MutualInformation()},
        {"relabel": "epoch"},
    ):
        with pytest.raises(InputError, match="another training"):
            run(points, epochs=1, folder=tmp_path, **other)
    with pytest.raises(InputError, match="another training"):
        run(points + 1, epochs=1, folder=tmp_path)
    with pytest.raises(InputError, match="another training"):
        run(points, epochs=1, folder=tmp_path, prepare=lambda values: values.float() / 2)
    assert run(points, epochs=1, folder=tmp_path, prepare=lambda values: values.float()).resumed_at == 1


def test_it_stops_where_the_loss_is_no_number_and_keeps_the_last_state(tmp_path: Path) -> None:
    points, _ = blobs()
    calls = []

    def spoilt(values: Tensor, generator: torch.Generator) -> Tensor:
        calls.append(None)
        return values * (float("nan") if len(calls) == 6 else 1.0)  # second step of the second epoch

    with pytest.raises(InputError, match=r"nan .*step 2 of epoch 2 .*kept.*learning_rate"):
        run(points, folder=tmp_path, augment=spoilt)
    state = torch.load(tmp_path / "last.ckpt", weights_only=True)
    assert state["epoch"] == 0
    assert all(value.isfinite().all() for value in state["state_dict"].values())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"prior": [1, 2]}, "prior .*3 numbers"),
        ({"prior": [1, 0, 2]}, "prior .*3 numbers"),
        ({"prior": "even"}, "prior .*3 numbers"),
        ({"augment": None}, "views=0 .*augment"),
        ({"partial_labels": [0, 1]}, "partial_labels .*240"),
        ({"partial_labels": np.full(240, 3)}, r"partial_labels .*0\.\.2"),
        ({"training": {"learning_rate": 1e38}}, r"learning_rate .*1e\+15"),
        ({"training": {"batch_size": 1}}, "batch_size .*2"),
    ],
)
def test_what_cannot_be(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        run(blobs()[0], **options)


PHASES = (Phase("supervised", 30, 1e-3), Phase("assigned", 30, 2e-3))


def blobs_phases(labelled: int = 12, **kwargs: Any) -> tuple[Reversal, NDArray[np.int64]]:
    """90 points of three clusters, labels of the first, and a network that has begun."""
    generator = np.random.default_rng(0)
    classes = np.arange(90) % 3
    inputs = torch.from_numpy(4 * np.eye(3)[classes] + generator.normal(size=(90, 3)))
    network = Perceptron(3, (8,), 4).double()
    network.begin(inputs, np.random.default_rng(1))
    known = constraints(90, labels=np.where(np.arange(90) < labelled, classes, -1))
    solver = Solver(**{"batch_size": 20} | kwargs.pop("solver", {}))
    return Reversal(network, inputs, known, 3, (1 / 3, 1 / 3), penalty=0.01, solver=solver, **kwargs), classes


def run_phases(training: Reversal, folder: Path | None = None, recorder: Recorder | None = None) -> TrainedPhases:
    return train_phases(training, PHASES, folder=folder, **({} if recorder is None else recorder.watch))


@pytest.mark.parametrize("stop", [40, 50])
def test_labels_of_deep_clustering_are_kept_with_the_state(tmp_path: Path, stop: int) -> None:
    """K-means is repeated every seven steps, and a state is written every twenty and after each phase."""

    def deep(clusters: int = 5) -> Reversal:
        return blobs_phases(assignment="deep_clustering", solver={"deep_clusters": clusters, "deep_steps": 7})[0]

    expected = run_phases(deep())
    with pytest.raises(KeyboardInterrupt):
        run_phases(deep(), tmp_path, Recorder(stop))
    found = run_phases(deep(), tmp_path)
    assert found.resumed_at == {40: 30, 50: 40}[stop]
    np.testing.assert_array_equal(found.trace, expected.trace)
    np.testing.assert_array_equal(found.eigengaps, expected.eigengaps)
    with pytest.raises(InputError, match="another training"):
        run_phases(deep(6), tmp_path)


@pytest.mark.parametrize("whole", [False, True])
def test_a_damaged_state_is_said_and_begun_anew(tmp_path: Path, whole: bool) -> None:
    expected = run_phases(blobs_phases()[0], tmp_path)
    file = tmp_path / STATE
    content = bytearray(file.read_bytes())
    trace = np.column_stack([expected.trace, expected.residuals, expected.eigengaps]).tobytes()
    content[content.index(trace) + 3] ^= 1  # of one number, in a file that can still be read
    file.write_bytes(content if whole else content[: len(content) // 2])
    with pytest.warns(UserWarning, match=r"last\.ckpt .*damaged"):
        found = run_phases(blobs_phases()[0], tmp_path)
    assert found.resumed_at == 0
    np.testing.assert_array_equal(found.trace, expected.trace)


def test_curves() -> None:
    training, classes = blobs_phases()
    recorder = Recorder()
    found = run_phases(training, recorder=recorder)
    assert recorder.steps == 60
    assert sorted(recorder.values) == [10, 20, 30, 40, 50, 60]
    assert recorder.values[10]["supervised_loss"] == found.trace[9]
    assert recorder.values[60]["loss"] == found.trace[59]
    assert set(recorder.values[30]) == {"supervised_loss"}  # labels say all
    last = recorder.values[60]
    assert last["watched"] == 3
    assert np.isnan(found.eigengaps[:30]).all()
    assert (found.eigengaps[30:] > 0).all()
    assert 0 <= last["entropy"] <= np.log(32)
    assert last["smallest_cluster"] <= 1 / 3 + 1e-9
    assert last["largest_cluster"] >= 1 / 3 - 1e-9
    seen = recorder.found[-1] >= 0
    assert seen.sum() == 20
    assert not seen[:12].any()  # labels that are known are not told back
    assert (recorder.found[-1] == classes)[seen].mean() > 0.8
    # Who looks on changes nothing.
    np.testing.assert_array_equal(run_phases(blobs_phases()[0]).trace, found.trace)


def test_where_it_breaks_off_is_said_and_the_last_good_state_stays(tmp_path: Path) -> None:
    training, _ = blobs_phases()
    calls = iter(range(1000))
    training.network[0].weight.register_hook(lambda slope: slope * (torch.nan if next(calls) == 44 else 1))
    with pytest.raises(InputError, match=r"not finite at step 15 on all points .*kept"):
        run_phases(training, tmp_path)
    assert all(bool(one.isfinite().all()) for one in training.network.parameters())
    again, _ = blobs_phases()
    assert run_phases(again, tmp_path).resumed_at == 40
    silent, _ = blobs_phases()
    silent.network[0].weight.register_hook(lambda slope: slope * torch.inf)
    with pytest.raises(InputError, match="not finite at supervised step 1 "):
        run_phases(silent)
