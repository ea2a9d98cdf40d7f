"""A training that several processes divide among themselves: real ones, which meet by gloo."""

import multiprocessing
import os
import pickle
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from fsl.training.classification import Job
from fsl.training.ranks import _sendable, in_ranks
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from clustering.files.training_state import load_state
from clustering.foundation.errors import InputError
from clustering.foundation.progress import quiet
from fsl.benchmarks.images import open_images
from fsl.machine import resolve_devices
from fsl.training.base import Trained, Training, train
from tests.fsl import divided
from tests.fsl.test_benchmark_images import Stripes
from tests.fsl.test_training import BASE, SHORT, VALIDATION, images
from tests.runs.children import started, until


class Shown:
    """Progress and log in one; may stop the training when it is told of an epoch."""

    def __init__(self, stop_at: int | None = None) -> None:
        self.curves: dict[str, dict[int, float]] = {}
        self.notes: list[str] = []
        self.bars: list[tuple[str, int]] = []
        self.counts: list[int] = []
        self.stop_at = stop_at

    def metrics(self, values: Mapping[str, float], step: int) -> None:
        for name, value in values.items():
            self.curves.setdefault(name, {})[step] = value
        if "train_loss" in values and step == self.stop_at:
            raise KeyboardInterrupt

    def note(self, text: str) -> None:
        self.notes.append(text)

    @contextmanager
    def track(self, description: str, total: int) -> Iterator[Any]:
        self.bars.append((description, total))
        yield lambda n=1, **numbers: self.counts.append(n)


# 72 images in batches of 15: one rank has 7 of them, the other 8.
UNEVEN = replace(SHORT, epochs=3, batch_size=15, validate_every=1)


def run(folder: Path, shown: Shown, devices: int, training: Training = UNEVEN, **changes: Any) -> Trained:
    divided.register()
    given = {"backbone_name": "plain_divided", "base": BASE, "validation": VALIDATION, "seed": 3, **changes}
    benchmark = divided.Patterns()
    return train(
        benchmark=benchmark,
        training=training,
        folder=folder,
        log=shown,
        progress=shown,
        device="cpu",
        devices=devices,
        **given,
    )


def weights(folder: Path) -> dict[str, Tensor]:
    state = load_state(folder / "last.ckpt")
    assert state is not None
    return dict(state["weights"])


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Trained, Shown]:
    """A training by one process."""
    folder, shown = tmp_path_factory.mktemp("alone"), Shown()
    return folder, run(folder, shown, 1), shown


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Trained, Shown]:
    """The same training by two."""
    folder, shown = tmp_path_factory.mktemp("both"), Shown()
    return folder, run(folder, shown, 2), shown


@pytest.mark.slow
def test_two_processes_do_what_one_does(alone: tuple[Path, Trained, Shown], both: tuple[Path, Trained, Shown]) -> None:
    """Without batch normalisation they differ by rounding."""
    (folder, one, shown), (other, two, seen) = alone, both
    for key, value in weights(folder).items():
        torch.testing.assert_close(weights(other)[key], value, rtol=1e-4, atol=1e-5)
    assert (one.epochs, one.images, one.best_epoch) == (two.epochs, two.images, two.best_epoch)
    assert shown.counts == seen.counts
    assert shown.bars[0] == ("training plain_divided on patterns", 3 * 60)
    assert [(name, total) for name, total in seen.bars] == shown.bars[:1]
    assert seen.curves.keys() == shown.curves.keys()
    for name, curve in shown.curves.items():
        assert list(curve) == list(seen.curves[name])
        if name != "images_per_second":
            assert list(seen.curves[name].values()) == pytest.approx(list(curve.values()), rel=1e-3, abs=0.02)
    assert sorted(file.name for file in other.iterdir()) == ["best.safetensors", "last.ckpt"]


@pytest.mark.slow
def test_an_interrupted_training_goes_on_by_two_or_by_one(both: tuple[Path, Trained, Shown], tmp_path: Path) -> None:
    """By two its weights are the same bit by bit."""
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "again", Shown(stop_at=3), 2)
    assert multiprocessing.active_children() == []
    shutil.copytree(tmp_path / "again", tmp_path / "one")
    shown = Shown()
    assert run(tmp_path / "again", shown, 2).resumed_at == 2
    assert shown.notes == [f"resuming after epoch 2 of {tmp_path / 'again'}"]
    assert list(shown.curves["train_loss"]) == [3]
    assert run(tmp_path / "one", Shown(), 1).resumed_at == 2
    for key, value in weights(both[0]).items():
        assert torch.equal(weights(tmp_path / "again")[key], value)
        torch.testing.assert_close(weights(tmp_path / "one")[key], value, rtol=1e-4, atol=1e-5)


def test_a_finished_training_starts_no_processes(
    alone: tuple[Path, Trained, Shown], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fsl.training.ranks.in_ranks", None)
    assert run(alone[0], Shown(), 2).resumed_at == 3


@given(st.integers(1, 300), st.integers(1, 8))
def test_shares_are_a_batch(batch: int, ranks: int) -> None:
    job = Job.__new__(Job)
    parts = []
    for rank in range(ranks):
        vars(job).update(rank=rank, ranks=ranks)
        parts.append(list(range(batch))[job.share(batch)])
    assert [image for part in parts for image in part] == list(range(batch))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


def test_too_many_devices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fsl.machine.usable_cores", lambda: 4)
    with pytest.raises(InputError, match=r"devices=3: .*5 images .*devices=2"):
        run(tmp_path / "new", Shown(), 3, replace(SHORT, batch_size=5))
    assert not (tmp_path / "new").exists()
    with pytest.raises(InputError, match=r"devices=5 .*device=cpu: .*devices=4"):
        resolve_devices("cpu", 5)


def test_gpus_that_are_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.device_count", lambda: 3)
    assert [device.index for device in resolve_devices("cuda:1", 2)] == [1, 2]
    with pytest.raises(InputError, match=r"devices=3 .*device=cuda:1: .*3 GPUs; .*devices=2"):
        resolve_devices("cuda:1", 3)


def test_images_of_a_file_travel_as_its_path(tmp_path: Path) -> None:
    found = open_images(Stripes(), "base", tmp_path)
    parcel = pickle.dumps(found)
    assert len(parcel) < 1000
    again = pickle.loads(parcel)
    assert torch.equal(again.images, found.images)
    assert (again.class_names, again.fingerprint) == (found.class_names, found.fingerprint)
    assert found.path is not None
    shutil.copy(open_images(Stripes(seed=1), "base", tmp_path).path or "", tmp_path / "other")
    (tmp_path / "other").replace(found.path)
    with pytest.raises(InputError, match="replaced by another process"):
        pickle.loads(parcel)


def test_images_in_memory_travel_themselves() -> None:
    found = images(2, 3, 0)
    assert torch.equal(pickle.loads(pickle.dumps(found)).images, found.images)


# What `in_ranks` does, with work of moments.


@pytest.mark.slow
def test_rank_0_reports_and_one_that_fails_ends_all() -> None:
    shown = Shown()
    with pytest.raises(InputError, match="rank 1 does not like it"):
        in_ranks(divided.add_up_and_fail_at_one, 2, "gloo", shown, shown)
    assert shown.curves == {"sum": {1: 3.0}}
    assert (shown.bars, shown.counts, shown.notes) == ([("adding", 10)], [4, 6], ["rank 0"])
    assert multiprocessing.active_children() == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("work", "error", "words"),
    [
        (divided.die_at_one, ChildProcessError, "process 2 of 2 .*signal 9"),
        (divided.fail_strangely, RuntimeError, "Unpicklable: 1 and 2"),
    ],
)
def test_one_in_trouble_ends_all(work: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        in_ranks(work, 2, "gloo", None, quiet)
    assert multiprocessing.active_children() == []


def test_an_error_that_no_other_process_can_build_comes_as_what_it_says() -> None:
    with pytest.raises(divided.Unpicklable) as caught:
        divided.fail_strangely(1, None, quiet)
    sent = pickle.loads(pickle.dumps(_sendable(caught.value)))
    assert type(sent) is RuntimeError
    assert str(sent) == "Unpicklable: 1 and 2"
    assert "fail_strangely" in sent.__notes__[0]


PARENT = """
import sys
from pathlib import Path
from clustering.foundation.progress import quiet
from fsl.training.ranks import in_ranks
from tests.fsl.divided import StandStill

if __name__ == "__main__":
    in_ranks(StandStill(Path(sys.argv[1])), 2, "gloo", None, quiet)
"""


@pytest.mark.slow
def test_processes_end_with_the_one_that_asked(tmp_path: Path) -> None:
    """However that ends."""
    (tmp_path / "parent.py").write_text(PARENT)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(["", *sys.path])[1:]}
    with started([str(tmp_path / "parent.py"), str(tmp_path)], environment, output=subprocess.DEVNULL) as parent:
        until(lambda: (tmp_path / "0").exists() and (tmp_path / "1").exists())
        numbers = [int((tmp_path / rank).read_text()) for rank in "01"]
        assert all(alive(number) for number in numbers)
        parent.send_signal(signal.SIGKILL)
        until(lambda: not any(alive(number) for number in numbers))


def alive(number: int) -> bool:
    try:
        with open(f"/proc/{number}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
