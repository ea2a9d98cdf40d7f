"""Images decoded once into a checked cache, whatever happens to its files."""

import errno
import os
import zipfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import pytest
import torch

from clustering.foundation.errors import InputError
from fsl.benchmarks.augmentation import Augmentation
from fsl.benchmarks.benchmark import SPLITS, Decoded, fingerprint
from fsl.benchmarks.images import open_images


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


class Notes:
    """Progress that remembers what it was told."""

    def __init__(self):
        self.bars, self.notes = [], []

    def track(self, description, total):
        self.bars.append(description)
        return nullcontext(lambda n=1, **numbers: None)

    def note(self, text):
        self.notes.append(text)


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
    benchmark, shown = Stripes(), Notes()
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


def test_a_file_that_vanishes_while_images_are_decoded_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(Stripes, "read", lambda self, split: Decoded(Vanishing(), LABELS, ("a", "b", "c")))
    with pytest.raises(InputError, match=r"benchmark stripes: .*base: /data/3\.png: No such file"):
        open_images(Stripes(), "base", tmp_path)
    assert not list(tmp_path.glob("*/*.json"))
