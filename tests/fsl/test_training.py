"""Base training on a few images: it learns, resumes exactly, and says what is wrong."""

import dataclasses
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
import yaml
from fsl.training.classifiers import create_classifier
from torch import Tensor, nn
from torch.nn import functional

from clustering.files.training_state import load_state, save_state
from clustering.foundation.errors import InputError
from clustering.foundation.progress import quiet
from fsl.benchmarks.augmentation import Augmentation
from fsl.benchmarks.benchmark import Decoded
from fsl.benchmarks.images import ImageSet
from fsl.features.bank import extract
from fsl.training.base import Trained, Training, load_backbone, train


@dataclass(frozen=True)
class Tiny:
    """16-pixel patterns under noise, a few of each class."""

    name: ClassVar[str] = "tiny"
    channels: ClassVar[int] = 1
    size: ClassVar[int] = 16
    mean: ClassVar[tuple[float, ...]] = (0.5,)
    std: ClassVar[tuple[float, ...]] = (0.3,)
    augmentation: ClassVar[Augmentation] = Augmentation(rotation=10, translation=0.1)

    def source(self) -> str:
        return "tiny"

    def read(self, split: str) -> Decoded:
        raise AssertionError("train is handed its images")


def images(classes: int, each: int, seed: int) -> ImageSet:
    generator = torch.Generator().manual_seed(seed)
    patterns = torch.randint(0, 256, (classes, 1, 16, 16), generator=generator).repeat_interleave(each, dim=0)
    noise = torch.randint(-80, 80, patterns.shape, generator=generator)
    labels = torch.arange(classes).repeat_interleave(each)
    pixels = (patterns + noise).clamp(0, 255).to(torch.uint8)
    return ImageSet(pixels, labels, tuple(map(str, range(classes))), f"{classes} {each} {seed}")


CONFIGS = Path(__file__).parents[2] / "configs" / "training"
BASE, VALIDATION = images(6, 12, 0), images(5, 8, 1)
SHORT = Training(
    epochs=4,
    batch_size=16,
    learning_rate=0.05,
    schedule="one_cycle",
    warmup=1,
    validate_every=2,
    validation_tasks=20,
    precision="float32",
)


class Curves:
    """Keeps what is logged; can stop a training the hard way after some batches or at an epoch's log."""

    def __init__(self, stop_after_batches: int | None = None, error: type[BaseException] = RuntimeError) -> None:
        self.rows: list[tuple[int, dict[str, float]]] = []
        self.notes: list[str] = []
        self.left, self.error = stop_after_batches, error

    def metrics(self, values: Mapping[str, float], step: int) -> None:
        self.rows.append((step, dict(values)))

    def epochs(self, name: str) -> dict[int, float]:
        return {step: values[name] for step, values in self.rows if name in values}

    def note(self, text: str) -> None:
        self.notes.append(text)

    @contextmanager
    def track(self, description: str, total: int) -> Iterator[Any]:
        self.total, self.count = total, 0

        def advance(n: int = 1, **numbers: float) -> None:
            self.count += n
            if self.left is not None:
                self.left -= 1
                if self.left < 0:
                    raise self.error("stop")

        yield advance


def run(folder: Path, training: Training = SHORT, curves: Curves | None = None, **changes: Any) -> Trained:
    given: dict[str, Any] = {"backbone_name": "conv4", "base": BASE, "validation": VALIDATION, "seed": 3}
    given |= changes
    return train(
        benchmark=Tiny(),
        training=training,
        folder=folder,
        log=curves,
        progress=curves or quiet,
        device="cpu",
        **given,
    )


def weights(folder: Path) -> dict[str, Tensor]:
    state = load_state(folder / "last.ckpt")
    assert state is not None
    best = {f"best.{key}": value for key, value in load_backbone(folder / "best.safetensors").state_dict().items()}
    return {**state["weights"], **best}


def assert_same(one: Path, other: Path) -> None:
    first, second = weights(one), weights(other)
    assert first.keys() == second.keys()
    assert [key for key in first if not torch.equal(first[key], second[key])] == []


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Trained, Curves]:
    """An uninterrupted training."""
    folder, curves = tmp_path_factory.mktemp("whole"), Curves()
    return folder, run(folder, curves=curves), curves


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int, Path], None]:
    """Put what a training left that was stopped after so many batches, 4 an epoch, into a folder."""

    @cache
    def left(batches: int) -> Path:
        folder = tmp_path_factory.mktemp("stopped")
        with pytest.raises(RuntimeError, match="stop"):
            run(folder, curves=Curves(stop_after_batches=batches))
        return folder

    def put(batches: int, folder: Path) -> None:
        shutil.copytree(left(batches), folder, dirs_exist_ok=True)

    return put


def test_learns_and_tells(whole: tuple[Path, Trained, Curves]) -> None:
    folder, trained, curves = whole
    losses = list(curves.epochs("train_loss").values())
    assert list(curves.epochs("train_loss")) == [1, 2, 3, 4]
    assert losses[-1] < losses[0]
    assert list(curves.epochs("validation_accuracy")) == [2, 4]
    assert trained.validation_accuracy == max(curves.epochs("validation_accuracy").values()) > 0.5
    assert trained.validation_accuracy == curves.epochs("validation_accuracy")[trained.best_epoch]
    assert (trained.epochs, trained.images, trained.resumed_at) == (4, 4 * 64, 0)
    assert curves.count == curves.total == 4 * 64
    assert all(speed > 0 for speed in curves.epochs("images_per_second").values())
    assert list(curves.epochs("learning_rate").values())[-1] < 0.05 / 10
    assert list(curves.epochs("step_loss")) == [4, 8, 12, 16]
    assert sorted(file.name for file in folder.iterdir()) == ["best.safetensors", "last.ckpt"]


def test_best_is_a_backbone_to_use(whole: tuple[Path, Trained, Curves]) -> None:
    backbone = load_backbone(whole[1].path)
    assert not backbone.training
    assert (backbone.feature_size, backbone.channels, backbone.size) == (64, 1, 16)
    assert backbone.about["benchmark"] == "tiny"
    assert backbone.about["epoch"] == whole[1].best_epoch
    features = extract(backbone, VALIDATION, mean=Tiny.mean, std=Tiny.std, device="cpu")
    assert features.shape == (40, 64)


def test_same_seed_same_weights_other_seed_other_weights(whole: tuple[Path, Trained, Curves], tmp_path: Path) -> None:
    torch.manual_seed(12345)  # the caller's random state plays no part
    state = torch.get_rng_state()
    run(tmp_path / "same")
    assert torch.equal(state, torch.get_rng_state())
    assert_same(whole[0], tmp_path / "same")
    run(tmp_path / "other", replace(SHORT, epochs=2), seed=4)
    other = weights(tmp_path / "other")
    assert not torch.equal(other["head.weight"], weights(whole[0])["head.weight"])


@pytest.mark.parametrize("batches", [1, 6, 9])
def test_resumed_equals_uninterrupted(
    whole: tuple[Path, Trained, Curves], stopped: Callable[[int, Path], None], tmp_path: Path, batches: int
) -> None:
    """Stopped in the middle of epoch 1, 2 and 3 (4 batches each): goes on after the last finished one."""
    stopped(batches, tmp_path)
    curves = Curves()
    trained = run(tmp_path, curves=curves)
    assert trained.resumed_at == batches // 4
    assert list(curves.epochs("train_loss")) == list(range(trained.resumed_at + 1, 5))
    assert curves.count == curves.total == (4 - trained.resumed_at) * 64
    assert_same(whole[0], tmp_path)
    assert trained.validation_accuracy == whole[1].validation_accuracy
    assert trained.images == whole[1].images


def test_many_interruptions_with_dropout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """torch's own generator, which dropout draws from, is part of what must be the same."""

    def with_dropout(name: str, *, channels: int, size: int) -> nn.Module:
        layers = nn.Conv2d(channels, 4, 3), nn.ReLU(), nn.Dropout(0.5), nn.AdaptiveAvgPool2d(2), nn.Flatten()
        backbone = nn.Sequential(*layers)
        backbone.feature_size = 16
        return backbone

    monkeypatch.setattr("fsl.training.base.create_backbone", with_dropout)
    monkeypatch.setattr("fsl.weights.checkpoints.create_backbone", with_dropout)
    training = replace(SHORT, epochs=3, batch_size=24)  # 3 batches an epoch
    run(tmp_path / "whole", training)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="stop"):
            run(tmp_path / "parts", training, Curves(stop_after_batches=4))
    assert run(tmp_path / "parts", training).resumed_at == 2
    assert_same(tmp_path / "whole", tmp_path / "parts")


def test_interrupt_is_an_interrupt(tmp_path: Path) -> None:
    """Lightning alone would exit with code 1."""
    handler = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, curves=Curves(stop_after_batches=5, error=KeyboardInterrupt))
    assert signal.getsignal(signal.SIGINT) is handler
    assert run(tmp_path).resumed_at == 1


def test_what_a_killed_writer_left_is_removed(whole: tuple[Path, Trained, Curves]) -> None:
    folder, _, _ = whole
    rest = folder / ".0a1b2c3d.partial.last.ckpt"
    rest.touch()
    run(folder)
    assert not rest.exists()


def test_a_finished_training_is_not_repeated(whole: tuple[Path, Trained, Curves]) -> None:
    before = (whole[0] / "last.ckpt").stat().st_mtime_ns
    again = run(whole[0])
    assert dataclasses.replace(again, images_per_second=0, resumed_at=0) == replace(whole[1], images_per_second=0)
    assert (whole[0] / "last.ckpt").stat().st_mtime_ns == before


@pytest.mark.parametrize("damage", ["truncated", "empty", "foreign", "no best"])
def test_damaged_checkpoints_are_discarded_with_a_note(
    whole: tuple[Path, Trained, Curves], stopped: Callable[[int, Path], None], tmp_path: Path, damage: str
) -> None:
    stopped(9, tmp_path)
    last, best = tmp_path / "last.ckpt", tmp_path / "best.safetensors"
    content = last.read_bytes()
    if damage == "no best":
        best.unlink()
    else:
        last.write_bytes({"truncated": content[: len(content) // 2], "empty": b"", "foreign": b"hello"}[damage])
    curves = Curves()
    assert run(tmp_path, curves=curves).resumed_at == 0
    assert any("begins anew" in note for note in curves.notes)
    assert_same(whole[0], tmp_path)


def test_no_code_runs_from_a_checkpoint(tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> tuple[Any, ...]:
            return (Path.touch, (tmp_path / "ran",))

    torch.save({"identity": Evil()}, tmp_path / "last.ckpt")
    assert load_state(tmp_path / "last.ckpt") is None
    assert not (tmp_path / "ran").exists()


def test_a_full_disk_keeps_the_last_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_state(tmp_path / "last.ckpt", {"identity": "old"})

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        save_state(tmp_path / "last.ckpt", {"identity": "new"})
    assert load_state(tmp_path / "last.ckpt") == {"identity": "old"}
    assert [file.name for file in tmp_path.iterdir()] == ["last.ckpt"]


def test_another_training_in_the_folder(whole: tuple[Path, Trained, Curves]) -> None:
    with pytest.raises(InputError, match=r"last\.ckpt: .*another training"):
        run(whole[0], replace(SHORT, learning_rate=0.01))


def test_early_stopping(tmp_path: Path) -> None:
    """At a learning rate of almost nothing no validation is better than the first."""
    training = replace(SHORT, epochs=9, validate_every=1, patience=2, learning_rate=1e-12, momentum=0.0, warmup=0)
    curves = Curves()
    flat = images(5, 8, 1)
    flat.images.zero_()  # all features equal: the accuracy cannot change
    trained = run(tmp_path, training, curves, validation=flat)
    assert (trained.epochs, trained.best_epoch) == (3, 1)
    assert run(tmp_path, training, validation=flat).resumed_at == 3


def test_divergence_names_step_and_epoch_and_keeps_the_state(
    stopped: Callable[[int, Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped(6, tmp_path)
    kept = (tmp_path / "last.ckpt").read_bytes()
    calls = 0

    def broken(pixels: Tensor, *_: object) -> Tensor:
        nonlocal calls
        calls += 1
        return pixels.float() * (float("nan") if calls == 3 else 1)

    with monkeypatch.context() as patch:
        patch.setattr("fsl.training.classification.normalise", broken)
        with pytest.raises(InputError, match=r"nan .*step 3 of epoch 2 \(epoch 1 is kept\); .*learning_rate"):
            run(tmp_path)
    assert (tmp_path / "last.ckpt").read_bytes() == kept


def test_divergence_in_the_last_step_is_not_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last loss of an epoch is finite, the weights after its step are not."""

    def step(self: torch.optim.SGD, closure: Any = None) -> None:
        closure()
        for group in self.param_groups:
            for weights in group["params"]:
                weights.data.fill_(float("inf"))

    with monkeypatch.context() as patch:
        patch.setattr(torch.optim.SGD, "step", step)
        with pytest.raises(InputError, match=r"weights .*epoch 1 \(nothing is kept\)"):
            run(tmp_path, replace(SHORT, batch_size=72))  # one batch an epoch
    assert list(tmp_path.iterdir()) == []


def test_label_smoothing_is_the_papers(tmp_path: Path) -> None:
    """0.9 on the true class and 0.1 / (K - 1) on each other."""
    from fsl.training.classification import Classification, Job

    backbone, head = nn.Flatten(), nn.Linear(256, 6)
    job = Job(
        "",
        Tiny(),
        BASE,
        VALIDATION,
        replace(SHORT, jitter=0.0),
        seed=0,
        folder=tmp_path,
        identity="",
        bfloat16=False,
        backbone=backbone,
        head=head,
        device=torch.device("cpu"),
    )
    module = Classification(job, None)
    module.configure_optimizers()
    rows = torch.arange(0, 72, 7)
    pixels = (BASE.images[rows] / 255 - 0.5) / 0.3
    target = torch.full((len(rows), 6), 0.1 / 5).scatter(1, BASE.labels[rows, None], 0.9)
    expected = -(target * head(pixels.flatten(1)).log_softmax(1)).sum(1).mean()
    torch.testing.assert_close(module.training_step(rows, 0), expected)


def test_cosine_classifier_compares_directions_only() -> None:
    classifier = create_classifier("cosine", 7, 5)
    features = torch.randn(9, 7, generator=torch.Generator().manual_seed(0))
    logits = classifier(features)
    expected = functional.cosine_similarity(features[:, None], classifier.weight[None], dim=2)
    torch.testing.assert_close(logits, 10 * expected)
    torch.testing.assert_close(classifier(features * torch.arange(1, 10)[:, None]), logits)
    assert classifier(features.bfloat16()).dtype == torch.float32


def test_training_with_the_cosine_classifier_learns_and_resumes(tmp_path: Path) -> None:
    training = replace(SHORT, classifier="cosine")
    curves = Curves()
    run(tmp_path / "whole", training, curves)
    losses = curves.epochs("train_loss")
    assert losses[max(losses)] < losses[min(losses)]
    with pytest.raises(RuntimeError, match="stop"):
        run(tmp_path / "part", training, Curves(stop_after_batches=6))
    assert run(tmp_path / "part", training).resumed_at == 1
    assert_same(tmp_path / "whole", tmp_path / "part")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("epochs", 0),
        ("batch_size", 1),
        ("learning_rate", 0),
        ("schedule", "stairs"),
        ("classifier", "forest"),
        ("crop", 0),
        ("jitter", 1.5),
        ("patience", 0),
        ("gamma", 2),
    ],
)
def test_bad_hyper_parameters_name_the_field(field: str, value: object) -> None:
    with pytest.raises(InputError, match=field):
        Training(**{field: value})


@pytest.mark.slow
def test_lightning_is_imported_by_training_alone() -> None:
    """It takes seconds, and reading a checkpoint or building a config needs none of it."""
    code = "import sys, fsl.training.base, fsl.features.bank; sys.exit(any(m in sys.modules for m in %r))"
    heavy = ("pytorch_lightning", "timm", "torchvision")
    assert subprocess.run([sys.executable, "-c", code % (heavy,)], check=False).returncode == 0


def test_bad_combinations() -> None:
    with pytest.raises(InputError, match=r"nesterov .*momentum"):
        Training(nesterov=True, momentum=0)
    with pytest.raises(InputError, match=r"warmup .*epochs \(3\)"):
        Training(epochs=3, warmup=3)


def test_bad_images(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"2 base classes .*1"):
        run(tmp_path, base=images(1, 20, 0))
    with pytest.raises(InputError, match=r"validation .*2 classes"):
        run(tmp_path, validation=images(5, 1, 0))


def test_foreign_checkpoints(whole: tuple[Path, Trained, Curves], tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.safetensors: "):
        load_backbone(tmp_path / "none.safetensors")
    with pytest.raises(InputError, match=r"last\.ckpt: truncated"):
        load_backbone(whole[0] / "last.ckpt")
    short = tmp_path / "short.safetensors"
    short.write_bytes(whole[1].path.read_bytes()[:-100])
    with pytest.raises(InputError, match=r"short\.safetensors: truncated"):
        load_backbone(short)


@pytest.mark.parametrize("name", sorted(path.stem for path in CONFIGS.glob("*.yaml")))
def test_option_files_build_trainings(name: str) -> None:
    content = yaml.safe_load((CONFIGS / f"{name}.yaml").read_text())
    fields = [field.name for field in dataclasses.fields(Training)]
    if name == "default":
        assert list(content) == fields
    else:  # what differs from the default
        assert content.pop("base") == "default"
        assert set(content) <= set(fields)
    built = Training(**{key: tuple(value) if isinstance(value, list) else value for key, value in content.items()})
    assert name != "default" or built == Training()
