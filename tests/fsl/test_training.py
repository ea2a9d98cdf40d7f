"""Base training on a few images: it learns, resumes exactly, and says what is wrong; devices by name."""

import math
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as lightning
import torch
from pytorch_lightning.callbacks import EarlyStopping
from torch import Tensor, nn
from torch.nn import functional
from torchvision.transforms import v2

from clustering.foundation.devices import resolve_device
from clustering.foundation.errors import InputError
from fsl.training.module import BaseClasses, CrossEntropy, schedule
from fsl.training.settings import Trained
from fsl.weights.checkpoints import load_backbone
from tests.fsl.small_training import BASE, SHORT, VALIDATION, Curves, Shown, Tiny, assert_same, images, run, weights


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Trained, Curves, Shown]:
    """An uninterrupted training."""
    folder, curves, shown = tmp_path_factory.mktemp("whole"), Curves(), Shown()
    return folder, run(folder, shown=shown, logger=curves, trainer={"log_every_n_steps": 1}), curves, shown


def stopped(batches: int, folder: Path) -> None:
    """Stop a training after so many batches, 4 an epoch."""
    with pytest.raises(RuntimeError, match="stop"):
        run(folder, shown=Shown(stop_after=batches), trainer={"log_every_n_steps": 1})


def test_learns_and_tells(whole: tuple[Path, Trained, Curves, Shown]) -> None:
    folder, trained, curves, shown = whole
    losses = list(curves.values("train/loss_epoch").values())
    assert len(losses) == 4
    assert losses[-1] < losses[0]
    assert list(curves.values("train/loss_step")) == list(range(16))
    assert list(curves.values("val/simpleshot")) == list(curves.values("val/laplacianshot")) == [7, 15]
    assert trained.validation_accuracy == pytest.approx(max(curves.values("val/simpleshot").values()))
    assert trained.validation_accuracy > 0.5
    assert (trained.epochs, trained.resumed_at) == (4, 0)
    assert shown.count == shown.total == 4 * 64
    last = f"{100 * curves.values('val/simpleshot')[15]:.2f} %"
    assert shown.numbers[-1]["validation after epoch 4:"] == last
    assert sorted(file.name for file in folder.iterdir()) == ["best.ckpt", "best.safetensors", "last.ckpt"]


def test_same_seed_same_weights_other_seed_other_weights(
    whole: tuple[Path, Trained, Curves, Shown], tmp_path: Path
) -> None:
    torch.manual_seed(12345)  # the caller's random state plays no part
    state = torch.get_rng_state()
    run(tmp_path / "same")
    assert torch.equal(state, torch.get_rng_state())
    assert_same(whole[0], tmp_path / "same")
    run(tmp_path / "other", replace(SHORT, epochs=2), seed=4)
    assert not torch.equal(weights(tmp_path / "other")["head.weight"], weights(whole[0])["head.weight"])


@pytest.mark.parametrize("batches", [1, 6, 9])
def test_resumed_equals_uninterrupted(whole: tuple[Path, Trained, Curves, Shown], tmp_path: Path, batches: int) -> None:
    """Stopped in the middle of epoch 1, 2 and 3 (4 batches each): goes on after the last finished one."""
    stopped(batches, tmp_path)
    shown = Shown()
    trained = run(tmp_path, shown=shown, trainer={"log_every_n_steps": 1})
    assert trained.resumed_at == batches // 4
    assert shown.count == shown.total == (4 - trained.resumed_at) * 64
    assert_same(whole[0], tmp_path)
    assert replace(trained, path=Path(), resumed_at=0) == replace(whole[1], path=Path())


@pytest.mark.parametrize("rate", ["step", "cosine"])
def test_many_interruptions_with_dropout_and_workers(
    tmp_path: Path, rate: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """torch's own generator, which dropout draws from, is part of what must be the same."""

    def with_dropout(name: str, *, channels: int, size: int) -> nn.Module:
        layers = nn.Conv2d(channels, 4, 3), nn.ReLU(), nn.Dropout(0.5), nn.AdaptiveAvgPool2d(2), nn.Flatten()
        backbone = nn.Sequential(*layers)
        backbone.feature_size = 16
        return backbone

    monkeypatch.setattr("fsl.training.base.create_backbone", with_dropout)
    monkeypatch.setattr("fsl.weights.checkpoints.create_backbone", with_dropout)
    training = replace(SHORT, epochs=3, batch_size=24, schedule=rate, milestones=(2,), warmup=0)  # 3 batches an epoch
    run(tmp_path / "whole", training)
    for workers in (0, 1):
        with pytest.raises(RuntimeError, match="stop"):
            run(tmp_path / "parts", training, Shown(stop_after=4), workers=workers)
    assert run(tmp_path / "parts", training, workers=1).resumed_at == 2
    assert_same(tmp_path / "whole", tmp_path / "parts")


def test_interrupt_is_an_interrupt(tmp_path: Path) -> None:
    """Lightning alone would exit with code 1."""
    handler = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, shown=Shown(stop_after=5, error=KeyboardInterrupt))
    assert signal.getsignal(signal.SIGINT) is handler
    assert run(tmp_path).resumed_at == 1


def test_a_training_with_other_settings_of_the_trainer_is_another(whole: tuple[Path, Trained, Curves, Shown]) -> None:
    before = (whole[0] / "last.ckpt").stat().st_mtime_ns
    with pytest.raises(InputError, match="belongs to another training"):
        run(whole[0], trainer={"gradient_clip_val": 0.1})
    assert (whole[0] / "last.ckpt").stat().st_mtime_ns == before


def test_a_finished_training_is_not_repeated(whole: tuple[Path, Trained, Curves, Shown]) -> None:
    before = (whole[0] / "last.ckpt").stat().st_mtime_ns
    again = run(whole[0], trainer={"log_every_n_steps": 1})
    assert replace(again, resumed_at=0) == whole[1]
    assert (whole[0] / "last.ckpt").stat().st_mtime_ns == before


@pytest.mark.parametrize("damage", ["truncated", "empty", "foreign", "no best"])
def test_damaged_checkpoints_are_discarded_with_a_note(
    whole: tuple[Path, Trained, Curves, Shown], tmp_path: Path, damage: str
) -> None:
    stopped(9, tmp_path)
    last, content = tmp_path / "last.ckpt", (tmp_path / "last.ckpt").read_bytes()
    if damage == "no best":
        (tmp_path / "best.ckpt").unlink()
    else:
        last.write_bytes({"truncated": content[: len(content) // 2], "empty": b"", "foreign": b"hello"}[damage])
    shown = Shown()
    assert run(tmp_path, shown=shown, trainer={"log_every_n_steps": 1}).resumed_at == 0
    assert any("begins anew" in note for note in shown.notes)
    assert_same(whole[0], tmp_path)


def test_early_stopping(tmp_path: Path) -> None:
    """At a learning rate of almost nothing no validation is better than the first."""
    training = replace(
        SHORT, epochs=9, validate_every=1, learning_rate=1e-12, momentum=0.0, schedule="cosine", warmup=0
    )
    stopping = [EarlyStopping("val/simpleshot", patience=2, mode="max")]
    flat = images(5, 8, 1)
    flat.images.zero_()  # all features equal: the accuracy cannot change
    trained = run(tmp_path, training, validation=flat, callbacks=stopping)
    assert (trained.epochs, trained.best_epoch) == (3, 1)
    assert run(tmp_path, training, validation=flat, callbacks=stopping).resumed_at == 3


def test_divergence_names_step_and_epoch_and_keeps_the_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stopped(6, tmp_path)
    kept = (tmp_path / "last.ckpt").read_bytes()
    monkeypatch.setattr("fsl.training.module.normalise", lambda pixels, *_: pixels.float() * float("nan"))
    with pytest.raises(InputError, match=r"not finite at step 4 of epoch 2 \(epoch 1 is kept\); .*learning_rate"):
        run(tmp_path, trainer={"log_every_n_steps": 1})
    assert (tmp_path / "last.ckpt").read_bytes() == kept


def test_divergence_in_the_last_step_is_not_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last loss of an epoch is finite, the weights after its step are not."""

    def step(self: torch.optim.SGD, closure: Any = None) -> None:
        closure()
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.data.fill_(float("inf"))

    monkeypatch.setattr(torch.optim.SGD, "step", step)
    with pytest.raises(InputError, match=r"weights .*epoch 1 \(nothing is kept\)"):
        run(tmp_path, replace(SHORT, batch_size=72))  # one batch an epoch
    assert list(tmp_path.iterdir()) == []


def test_label_smoothing_is_the_papers() -> None:
    """0.9 on the true class and 0.1 / (K - 1) on each other."""
    backbone = nn.Flatten()
    backbone.feature_size = 256
    module = CrossEntropy(backbone, 6, Tiny(), SHORT)
    rows = torch.arange(0, 72, 7)
    pixels = (BASE.images[rows] / 255 - 0.5) / 0.3
    target = torch.full((len(rows), 6), 0.1 / 5).scatter(1, BASE.labels[rows, None], 0.9)
    expected = -(target * module.head(pixels.flatten(1)).log_softmax(1)).sum(1).mean()
    torch.testing.assert_close(module.loss(BASE.images[rows], BASE.labels[rows]), expected)


def rates(**settings: Any) -> list[float]:
    """The rate of each step of 4 epochs of 5 steps, relative to its peak."""
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.05)
    scheduler = schedule(optimizer, replace(SHORT, epochs=4, **settings), 5, 4)
    found = []
    for _ in range(20):
        found.append(optimizer.param_groups[0]["lr"] / 0.05)
        optimizer.step()
        scheduler.step()
    return found


def test_schedules_are_torchs() -> None:
    assert rates(schedule="step", warmup=0, milestones=(2, 3)) == pytest.approx([1] * 10 + [0.1] * 5 + [0.01] * 5)
    cosine = rates(schedule="cosine", warmup=0)
    assert cosine == pytest.approx([(1 + math.cos(math.pi * step / 20)) / 2 for step in range(20)])
    cycle = rates(schedule="one_cycle", warmup=1)
    assert cycle[0] == pytest.approx(1 / 25)
    assert max(cycle) == cycle[4] == pytest.approx(1)
    assert cycle[-1] < 1e-4


def test_batches_depend_on_seed_and_epoch_alone() -> None:
    def batches(transform: Any, workers: int = 0) -> list[Tensor]:
        benchmark = Tiny()
        data = BaseClasses(BASE, VALIDATION, benchmark, SHORT, 5, workers)
        data.transform = transform
        return [images for images, _ in data.train_dataloader()]

    own = v2.Compose([v2.RandomHorizontalFlip(), v2.RandomRotation(20)])
    for transform in (Tiny.augmentation, own):
        state = torch.get_rng_state()
        first, again = batches(transform), batches(transform, workers=1)
        assert torch.equal(state, torch.get_rng_state())
        assert all(torch.equal(one, other) for one, other in zip(first, again, strict=True))
        assert not torch.equal(first[0], first[1])


def test_settings_of_the_trainer_and_own_parts(tmp_path: Path) -> None:
    class Ends(lightning.Callback):
        epochs = 0

        def on_train_epoch_end(self, trainer: Any, module: Any) -> None:
            self.epochs += 1

    ends = Ends()
    part = {"max_epochs": 2, "limit_train_batches": 3, "accumulate_grad_batches": 2, "precision": "bf16-mixed"}
    best = {"monitor": "val/laplacianshot"}
    trained = run(tmp_path / "one", trainer=part, callbacks=[ends], model_checkpoint=best)
    assert (ends.epochs, trained.epochs) == (2, 2)
    module = "tests.fsl.test_training:Squared"
    squared = run(tmp_path / "two", replace(SHORT, epochs=2), module=module)
    plain = run(tmp_path / "three", replace(SHORT, epochs=2))
    assert not torch.equal(*(load_backbone(made.path).state_dict()["blocks.0.0.weight"] for made in (squared, plain)))
    with pytest.raises(InputError, match="max_epochs"):
        run(tmp_path / "four", trainer={"max_epoch": 2})
    with pytest.raises(InputError, match=r"trainer: .*precision"):
        run(tmp_path / "five", trainer={"precision": "12-bit"})
    with pytest.raises(InputError, match="val/simpleshot"):
        run(tmp_path / "six", model_checkpoint={"monitor": "val/simplesho"})


class Squared(CrossEntropy):
    """Another loss."""

    def loss(self, images: Tensor, labels: Tensor) -> Tensor:
        target = functional.one_hot(labels, self.head.out_features).float()
        return functional.mse_loss(self.head(self(images)), target)


@pytest.mark.parametrize(
    ("settings", "changes", "message"),
    [
        ({"schedule": "step"}, {}, "warmup=1 .*schedule=one_cycle"),
        ({"epochs": 3, "warmup": 3}, {}, r"warmup=3 .*epochs \(3\)"),
        ({"warmup": 0}, {}, "schedule=one_cycle needs warmup"),
        ({}, {"base": images(1, 20, 0)}, "2 base classes"),
        ({}, {"validation": images(5, 1, 0)}, r"validation .*2 classes"),
    ],
)
def test_bad_combinations_and_images(tmp_path: Path, settings: Any, changes: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        run(tmp_path, replace(SHORT, **settings), **changes)


class Fails(lightning.Callback):
    """Fails at the beginning of the third epoch."""

    def on_train_epoch_start(self, trainer: Any, module: Any) -> None:
        if trainer.current_epoch == 2:
            raise InputError("stop")


@pytest.mark.slow
def test_two_processes_resume_bitwise(tmp_path: Path) -> None:
    """Two processes on the CPU, which meet by gloo."""
    training = replace(SHORT, epochs=3, validate_every=1)
    assert run(tmp_path / "whole", training, devices=2).epochs == 3
    with pytest.raises(InputError, match=r"^stop$"):
        run(tmp_path / "parts", training, devices=2, callbacks=[Fails()])
    assert run(tmp_path / "parts", training, devices=2).resumed_at == 2
    assert_same(tmp_path / "whole", tmp_path / "parts")
    with pytest.raises(InputError, match="devices=2: cannot divide a batch of 15 images"):
        run(tmp_path / "odd", replace(training, batch_size=15), devices=2)


def test_devices_by_name() -> None:
    assert resolve_device("cpu") == torch.device("cpu")
    assert resolve_device("auto").type == ("cuda" if torch.cuda.is_available() else "cpu")


@pytest.mark.parametrize("name", ["gpu", "", "cuda:99", "cuda:x"])
def test_devices_that_are_not_there(name: str) -> None:
    with pytest.raises(InputError, match=r"device .*; use |device .* use device="):
        resolve_device(name)
