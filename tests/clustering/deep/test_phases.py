"""A whole training: it goes on where it was interrupted, tells how it goes, and says where it broke off."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from clustering.constraints import constraints
from clustering.deep.xsdc.networks import Perceptron
from clustering.deep.xsdc.training import STATE, Phase, Reversal, Solver, TrainedPhases, train
from clustering.foundation.errors import InputError

PHASES = (Phase("supervised", 30, 1e-3), Phase("assigned", 30, 2e-3))


class Stopped(Exception):
    """What a power cut would be."""


class Recorder:
    """Curves as they come; it breaks off at a step."""

    def __init__(self, stop: int | None = None) -> None:
        self.values: dict[int, Mapping[str, float]] = {}
        self.found: list[NDArray[np.int64]] = []
        self.steps = 0
        self.stop = stop

    def metrics(self, values: Mapping[str, float], step: int) -> None:
        self.values[step] = values
        if step == self.stop:
            raise Stopped

    def observe(self, labels: NDArray[np.int64]) -> Mapping[str, float]:
        self.found.append(labels)
        return {"watched": float(len(self.found))}

    def advance(self, n: int = 1, **numbers: float) -> None:
        self.steps += n


def blobs(labelled: int = 12, **kwargs: Any) -> tuple[Reversal, NDArray[np.int64]]:
    """90 points of three clusters, labels of the first, and a network that has begun."""
    generator = np.random.default_rng(0)
    classes = np.arange(90) % 3
    inputs = torch.from_numpy(4 * np.eye(3)[classes] + generator.normal(size=(90, 3)))
    network = Perceptron(3, (8,), 4).double()
    network.begin(inputs, np.random.default_rng(1))
    known = constraints(90, labels=np.where(np.arange(90) < labelled, classes, -1))
    solver = Solver(**{"batch_size": 20} | kwargs.pop("solver", {}))
    return Reversal(network, inputs, known, 3, (1 / 3, 1 / 3), penalty=0.01, solver=solver, **kwargs), classes


def run(training: Reversal, folder: Path | None = None, recorder: Recorder | None = None) -> TrainedPhases:
    watch: dict[str, Any] = {}
    if recorder is not None:
        watch = {"log": recorder, "observe": recorder.observe, "advance": recorder.advance}
    return train(training, PHASES, folder=folder, **watch)


@pytest.mark.parametrize("stop", [40, 50])
def test_labels_of_deep_clustering_are_kept_with_the_state(tmp_path: Path, stop: int) -> None:
    """K-means is repeated every seven steps, and a state is written every twenty and after each phase."""

    def deep(clusters: int = 5) -> Reversal:
        return blobs(assignment="deep_clustering", solver={"deep_clusters": clusters, "deep_steps": 7})[0]

    expected = run(deep())
    with pytest.raises(Stopped):
        run(deep(), tmp_path, Recorder(stop))
    found = run(deep(), tmp_path)
    assert found.resumed_at == {40: 30, 50: 40}[stop]
    np.testing.assert_array_equal(found.trace, expected.trace)
    np.testing.assert_array_equal(found.eigengaps, expected.eigengaps)
    with pytest.raises(InputError, match="another training"):
        run(deep(6), tmp_path)


@pytest.mark.parametrize("whole", [False, True])
def test_a_damaged_state_is_said_and_begun_anew(tmp_path: Path, whole: bool) -> None:
    expected = run(blobs()[0], tmp_path)
    file = tmp_path / STATE
    content = bytearray(file.read_bytes())
    trace = np.column_stack([expected.trace, expected.residuals, expected.eigengaps]).tobytes()
    content[content.index(trace) + 3] ^= 1  # of one number, in a file that can still be read
    file.write_bytes(content if whole else content[: len(content) // 2])
    with pytest.warns(UserWarning, match=r"last\.ckpt .*damaged"):
        found = run(blobs()[0], tmp_path)
    assert found.resumed_at == 0
    np.testing.assert_array_equal(found.trace, expected.trace)


def test_curves() -> None:
    training, classes = blobs()
    recorder = Recorder()
    found = run(training, recorder=recorder)
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
    np.testing.assert_array_equal(run(blobs()[0]).trace, found.trace)


def test_where_it_breaks_off_is_said_and_the_last_good_state_stays(tmp_path: Path) -> None:
    training, _ = blobs()
    calls = iter(range(1000))
    training.network[0].weight.register_hook(lambda slope: slope * (torch.nan if next(calls) == 44 else 1))
    with pytest.raises(InputError, match=r"not finite at step 15 on all points .*kept"):
        run(training, tmp_path)
    assert all(bool(one.isfinite().all()) for one in training.network.parameters())
    again, _ = blobs()
    assert run(again, tmp_path).resumed_at == 40
    silent, _ = blobs()
    silent.network[0].weight.register_hook(lambda slope: slope * torch.inf)
    with pytest.raises(InputError, match="not finite at supervised step 1 "):
        run(silent)
