"""Images decoded once into a checked cache, augmented, and made like another benchmark's."""

import errno
import os
import zipfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torchvision.transforms import RandomResizedCrop, v2

from clustering.foundation.errors import InputError
from fsl.benchmarks.augmentation import Augmentation
from fsl.benchmarks.benchmark import SPLITS, Decoded, fingerprint
from fsl.benchmarks.images import open_images
from fsl.features.pictures import conform
from tests.fsl.small_training import Shown


@dataclass(frozen=True)
class Stripes:
    """Three classes of two images; counts how often it is read."""

    seed: int = 0
    reads: list[str] = field(default_factory=list, compare=False)

    name: ClassVar[str] = "stripes"
    channels: ClassVar[int] = 3
    size: ClassVar[int] = 8
    mean: ClassVar[tuple[float, ...]] = (0.5, 0.5, 0.5)
    std: ClassVar[tuple[float, ...]] = (0.5, 0.5, 0.5)
    augmentation: ClassVar[Augmentation] = Augmentation()

    def source(self) -> str:
        return fingerprint("stripes", self.seed)

    def read(self, split: str) -> Decoded:
        self.reads.append(split)
        images = np.random.default_rng([self.seed, len(split)]).integers(0, 256, (6, 3, 8, 8), np.uint8)
        return Decoded(images, np.array([0, 0, 1, 1, 2, 2]), tuple(f"{split} {name}" for name in "abc"))


def cached(folder):
    (path,) = folder.glob("images-stripes-*/base.npy")
    return path


@pytest.mark.parametrize("split", SPLITS)
def test_images_are_those_of_the_benchmark(tmp_path, split):
    benchmark = Stripes()
    images = open_images(benchmark, split, tmp_path)
    want = benchmark.read(split)
    assert np.array_equal(images.images.numpy(), want.images)
    assert images.labels.tolist() == want.labels.tolist()
    assert images.class_names == want.class_names
    assert len(images) == 6
    assert len(images.fingerprint) == 16


def truncated(data):
    return data[: len(data) // 2]


def one_bit(data):
    return data[:-400] + bytes([data[-400] ^ 1]) + data[-399:]


@pytest.mark.parametrize("damage", [truncated, one_bit, lambda _: b"", lambda _: b"P6 another program's file"])
def test_a_damaged_file_is_made_anew_and_said_so(tmp_path, damage):
    first = open_images(Stripes(), "base", tmp_path)
    want = first.images.clone()
    path = cached(tmp_path)
    data = path.read_bytes()
    path.unlink()  # the first images are still mapped
    path.write_bytes(damage(data))
    benchmark, shown = Stripes(), Shown()
    again = open_images(benchmark, "base", tmp_path, shown)
    assert benchmark.reads == ["base"]
    assert torch.equal(again.images, want)
    assert len(shown.notes) == 1
    assert str(path.with_suffix(".json")) in shown.notes[0]
    assert "written again" in shown.notes[0]
    assert cached(tmp_path) == path


def test_an_interrupted_decoding_leaves_no_file(tmp_path, monkeypatch):
    def interrupted(self, split):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Stripes, "read", interrupted)
        with pytest.raises(KeyboardInterrupt):
            open_images(Stripes(), "base", tmp_path)
    assert not list(tmp_path.glob("*/*.json"))
    assert len(open_images(Stripes(), "base", tmp_path)) == 6


def test_a_full_disk_leaves_no_file(tmp_path):
    resource = pytest.importorskip("resource")
    want = open_images(Stripes(), "base", tmp_path / "whole")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (cached(tmp_path / "whole").stat().st_size - 300, limits[1]))
    try:
        with pytest.raises(OSError, match=os.strerror(errno.EFBIG)):
            open_images(Stripes(), "base", tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert sorted(path.name for path in tmp_path.glob("images-*/*")) == ["base.lock"]
    assert open_images(Stripes(), "base", tmp_path).fingerprint == want.fingerprint


def test_of_several_at_once_one_decodes(tmp_path):
    benchmark = Stripes()
    with ThreadPoolExecutor(4) as pool:
        opened = list(pool.map(lambda _: open_images(benchmark, "base", tmp_path), range(4)))
    assert benchmark.reads == ["base"]
    assert len({images.fingerprint for images in opened}) == 1


IMAGES, LABELS = np.zeros((6, 3, 8, 8), np.uint8), np.array([0, 0, 1, 1, 2, 2])


@pytest.mark.parametrize(
    "broken",
    [
        Decoded(IMAGES[:, :1], LABELS, ("a", "b", "c")),
        Decoded(IMAGES.astype(np.float32), LABELS, ("a", "b", "c")),
        Decoded(IMAGES[:0], LABELS[:0], ()),
        Decoded(IMAGES[:5], LABELS, ("a", "b", "c")),
        Decoded(IMAGES, LABELS, ("a", "b")),
        Decoded(IMAGES, LABELS + 1, ("a", "b", "c")),
        Decoded(IMAGES, LABELS.astype(np.int32), ("a", "b", "c")),
    ],
)
def test_a_benchmark_that_breaks_its_description_is_named(tmp_path, monkeypatch, broken):
    monkeypatch.setattr(Stripes, "read", lambda self, split: broken)
    with pytest.raises(InputError, match=r"benchmark stripes: .* of base"):
        open_images(Stripes(), "base", tmp_path)
    assert not list(tmp_path.glob("*/*.json"))


class Vanishing:
    """Pictures of a file that is gone when they are asked for."""

    shape = IMAGES.shape

    def __getitem__(self, part):
        raise FileNotFoundError(errno.ENOENT, "No such file or directory", "/data/3.png")


def test_a_file_that_vanishes_while_images_are_decoded_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(Stripes, "read", lambda self, split: Decoded(Vanishing(), LABELS, ("a", "b", "c")))
    with pytest.raises(InputError, match=r"benchmark stripes: .*base: /data/3\.png: No such file"):
        open_images(Stripes(), "base", tmp_path)
    assert not list(tmp_path.glob("*/*.json"))


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (FileNotFoundError(errno.ENOENT, "No such file or directory", "/data/base.npz"), "/data/base.npz: No such"),
        (PermissionError(errno.EACCES, "Permission denied", "/data"), "/data: Permission denied"),
        (zipfile.BadZipFile("File is not a zip file"), "BadZipFile: File is not a zip file"),
        (EOFError("cut short"), "EOFError: cut short"),
    ],
)
@pytest.mark.parametrize("method", ["read", "source"])
def test_files_that_cannot_be_read_are_the_users_to_mend(tmp_path, monkeypatch, method, error, words):
    def fails(*_):
        raise error

    monkeypatch.setattr(Stripes, method, fails)
    with pytest.raises(InputError, match=rf"benchmark stripes: {method}\(.*\): {words}"):
        open_images(Stripes(), "base", tmp_path)


CHANNELS = st.sampled_from([1, 3])


@given(have=CHANNELS, want=CHANNELS, size=st.integers(4, 40), wanted=st.integers(4, 40), seed=st.integers(0, 99))
@settings(max_examples=25, deadline=None)
def test_shape_and_range(have, want, size, wanted, seed):
    generator = torch.Generator().manual_seed(seed)
    images = torch.randint(0, 256, (3, have, size, size), dtype=torch.uint8, generator=generator)
    made = conform(images, want, wanted)
    assert made.shape == (3, want, wanted, wanted)
    assert made.min() >= images.min() - 1e-3
    assert made.max() <= images.max() + 1e-3
    if want == 3 and have == 1:
        assert torch.equal(made[:, 0], made[:, 1])
        assert torch.equal(made[:, 0], made[:, 2])


def test_grey_is_the_luma_of_pillow():
    from PIL import Image

    pixels = torch.randint(0, 256, (5, 6, 3), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    want = torch.tensor(list(Image.fromarray(pixels.numpy()).convert("L").tobytes())).view(5, 6)
    found = conform(pixels.permute(2, 0, 1)[None], 1, 5)  # only the colour is compared: one row less is made
    assert found.shape == (1, 1, 5, 5)
    torch.testing.assert_close(
        conform(pixels[:5, :5].permute(2, 0, 1)[None], 1, 5)[0, 0], want[:, :5].float(), atol=0.6, rtol=0
    )


def images(count: int = 8, channels: int = 1, side: int = 28, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 256, (count, channels, side, side), generator=generator, dtype=torch.uint8)


def draws(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


FULL = Augmentation(
    rotation=30,
    translation=0.2,
    scale=0.3,
    shear=10,
    flip=True,
    crop=0.3,
    brightness=0.4,
    contrast=0.4,
    saturation=0.4,
)


def test_nothing_asked_nothing_changed() -> None:
    x = images()
    assert torch.equal(Augmentation()(x, draws()), x.float())


@settings(max_examples=15, deadline=None)
@given(
    count=st.integers(1, 5),
    channels=st.sampled_from([1, 3]),
    side=st.integers(2, 20),
    seed=st.integers(0, 2**62),
)
def test_shape_range_and_seed(count: int, channels: int, side: int, seed: int) -> None:
    x = images(count, channels, side)
    changed = FULL(x, draws(seed))
    assert changed.shape == x.shape
    assert changed.dtype == torch.float32
    assert float(changed.min()) >= 0
    assert float(changed.max()) <= 255.01
    assert torch.equal(changed, FULL(x, draws(seed)))


def test_translation_moves_a_dot_by_at_most_so_much() -> None:
    x = torch.zeros(200, 1, 41, 41)
    x[:, :, 20, 20] = 255
    changed = Augmentation(translation=0.1)(x, draws())
    y, rows, columns = changed[:, 0], torch.arange(41.0)[:, None], torch.arange(41.0)
    mass = y.sum((1, 2))
    torch.testing.assert_close(mass, torch.full((200,), 255.0), rtol=1e-3, atol=0.1)
    down = (y * rows).sum((1, 2)) / mass - 20
    right = (y * columns).sum((1, 2)) / mass - 20
    for shift in (down, right):
        assert float(shift.abs().max()) <= 4.1 + 1e-3
        assert float(shift.min()) < -2.5
        assert float(shift.max()) > 2.5


def test_flip_mirrors_half() -> None:
    x = images(400)
    changed = Augmentation(flip=True)(x, draws())
    mirrored = x.float().flip(3)
    same = (changed - x).abs().amax((1, 2, 3)) < 0.1
    turned = (changed - mirrored).abs().amax((1, 2, 3)) < 0.1
    assert bool((same ^ turned).all())
    assert 150 < int(turned.sum()) < 250


def distance(first: Tensor, second: Tensor) -> float:
    """The largest difference of two empirical distributions (Kolmogorov and Smirnov)."""
    at = torch.cat([first, second]).sort().values
    below = [torch.searchsorted(sample.sort().values, at, right=True) / len(sample) for sample in (first, second)]
    return float((below[0] - below[1]).abs().max())


def test_crops_that_fit_are_those_of_torchvision() -> None:
    """A crop that would not fit (one of seven) is cut down to the picture here, where torchvision draws another."""
    torch.manual_seed(0)
    count, picture = 4000, torch.zeros(1, 840, 840)
    drawn = [RandomResizedCrop.get_params(picture, [0.08, 1.0], [3 / 4, 4 / 3]) for _ in range(count)]
    top, left, height, width = (torch.tensor(drawn) / 840).T
    maps = Augmentation(crop=0.08)._maps(count, draws())
    wide, tall = maps[:, 0, 0], maps[:, 1, 1]
    fits = (wide < 1) & (tall < 1)
    assert 0.8 < float(fits.float().mean()) < 0.9
    near = 1.63 * (1 / count + 1 / int(fits.sum())) ** 0.5  # of samples of one distribution 1 % are further apart
    assert distance((wide * tall)[fits], height * width) < near
    assert distance((wide / tall)[fits], width / height) < near
    assert distance(maps[fits, 0, 2], 2 * left + width - 1) < near
    assert distance(maps[fits, 1, 2], 2 * top + height - 1) < near


@pytest.mark.parametrize("kind", ["brightness", "contrast", "saturation"])
def test_jitter_of_coloured_pictures_is_torchvisions(kind: str) -> None:
    """Grey is the luma of a colour, not the mean of its channels."""
    coloured = torch.rand(16, 3, 9, 9, generator=draws(1))
    factors = 1 + (torch.rand(16, generator=draws(2)) * 2 - 1) * 0.4
    adjust = getattr(v2.functional, f"adjust_{kind}")
    want = torch.stack([adjust(one, float(by)) for one, by in zip(coloured, factors, strict=True)])
    changed = Augmentation(**{kind: 0.4})(coloured * 255, draws(2)) / 255
    torch.testing.assert_close(changed, want, rtol=0, atol=2e-3)
