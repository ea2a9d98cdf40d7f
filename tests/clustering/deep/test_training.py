"""Training of networks: planted clusters are found, interruptions change nothing, mistakes are said."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from clustering.deep.objectives import Entropy, MutualInformation
from clustering.deep.settings import DeepTraining
from clustering.deep.training import DeepTrained, train
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


class Kept:
    def __init__(self, stop_after: int | None = None) -> None:
        self.values: list[Mapping[str, float]] = []
        self.stop_after = stop_after

    def metrics(self, values: Mapping[str, float], step: int) -> None:
        self.values.append(values)
        if step == self.stop_after:
            raise KeyboardInterrupt


@pytest.mark.parametrize("objective", [Entropy(), MutualInformation()], ids=str)
def test_far_clusters_are_found(objective: Any) -> None:
    points, truth = blobs()
    log = Kept()
    best = max(
        (run(points, epochs=15, objective=objective, seed=seed, log=log) for seed in range(2)),
        key=lambda found: accuracy(truth, found.labels),
    )
    assert accuracy(truth, best.labels) > 0.98
    assert best.sizes.sum() == len(points)
    sizes = {f"cluster_sizes/{k}" for k in range(CLUSTERS)}
    assert set(log.values[0]) == {"loss", "entropy", "smallest_cluster", "largest_cluster", *sizes}
    assert sum(log.values[0][name] for name in sizes) == pytest.approx(1)
    assert log.values[-1]["entropy"] < log.values[0]["entropy"]


def test_what_an_epoch_saw_is_observed_and_every_point_counted() -> None:
    points, _ = blobs(250)  # ten are left out of each epoch
    seen, log, counted = [], Kept(), []

    def observe(clusters: np.ndarray) -> dict[str, float]:
        seen.append(clusters.copy())
        return {"left_out": float((clusters < 0).sum())}

    run(points, epochs=2, log=log, observe=observe, advance=lambda n=1, **_: counted.append(n))
    assert [values["left_out"] for values in log.values] == [10, 10]
    assert all(set(np.unique(clusters)) <= {-1, 0, 1, 2} for clusters in seen)
    assert sum(counted) == 480
    plain = run(points, epochs=2)
    assert np.array_equal(plain.labels, run(points, epochs=2, observe=observe).labels), "looking changes nothing"


@pytest.mark.parametrize("relabel", ["batch", "epoch"])
def test_an_interrupted_training_goes_on_as_if_it_had_not_been(tmp_path: Path, relabel: Any) -> None:
    points, _ = blobs()
    before = torch.get_rng_state()
    given = {"seed": 5, "relabel": relabel}
    whole = run(points, **given)
    with pytest.raises(KeyboardInterrupt):
        run(points, **given, folder=tmp_path, log=Kept(stop_after=2))
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
