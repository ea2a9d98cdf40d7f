"""Random affine maps: seeded, bounded, and each change what its name says."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torchvision.transforms import RandomResizedCrop, v2

from fsl.benchmarks.augmentation import Augmentation


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
