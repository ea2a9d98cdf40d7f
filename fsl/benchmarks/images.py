"""Images of a split, decoded once and then memory-mapped from a cache."""

import contextlib
import dataclasses
import json
import lzma
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from filelock import FileLock
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import Dataset

from clustering.files.atomic import replacing
from clustering.files.regular import state_of
from clustering.foundation.cores import on_each_core
from clustering.foundation.errors import InputError, unknown
from clustering.foundation.progress import Progress, quiet
from clustering.foundation.streams import stream_key
from fsl.benchmarks.augmentation import Augmentation, Changes, Transform
from fsl.benchmarks.benchmark import SPLITS, Benchmark, Decoded, Fingerprint, Split, fingerprint
from fsl.benchmarks.closed_splits import check_open

FORMAT = "transduce images 2"
UNREADABLE = (OSError, EOFError, zipfile.BadZipFile, zlib.error, lzma.LZMAError)
BLOCK_BYTES = 4 << 20  # size of the images that are decoded at once


@dataclass(frozen=True, eq=False)
class ImageSet:
    """The images of one split.

    Attributes:
        images: (N, C, H, W) uint8, usually memory-mapped copy-on-write; treat them as read-only.
        labels: (N,) int64 labels 0..K-1.
        class_names: K names.
        fingerprint: hash of images, labels and names, 16 hexadecimal digits.
        path: the memory-mapped file, which is what pickling transfers to other processes; None for images in memory.
    """

    images: Tensor
    labels: Tensor
    class_names: tuple[str, ...]
    fingerprint: str
    path: Path | None = None

    def __len__(self) -> int:
        return len(self.labels)

    def __reduce__(self) -> tuple[Any, ...]:
        parts = (self.images, self.labels, self.class_names, self.fingerprint)
        return (ImageSet, parts) if self.path is None else (_mapped, (self.path, self.fingerprint))


class AugmentedImages(Dataset[tuple[Tensor, Tensor]]):
    """Augmented images and labels of (epoch, index) pairs.

    The change of an image depends on (seed, epoch, index), and not on the batch or the process. The global random state
    of torch is restored.
    """

    def __init__(self, images: ImageSet, transform: Transform, seed: int) -> None:
        self._images, self._transform, self._seed = images, transform, seed
        self._drawn: tuple[int, Changes] = -1, {}

    def __getitem__(self, pair: tuple[int, int]) -> tuple[Tensor, Tensor]:
        images, labels = self.__getitems__([pair])
        return images[0], labels[0]

    def __getitems__(self, pairs: Sequence[tuple[int, int]]) -> tuple[Tensor, Tensor]:
        epoch, rows = pairs[0][0], torch.tensor([index for _, index in pairs])
        images, labels = self._images.images[rows], self._images.labels[rows]
        key = (self._seed, "training", "augmentation", epoch)
        if isinstance(self._transform, Augmentation):
            if self._drawn[0] != epoch:  # of all images, in the order of their indices
                generator = torch.Generator().manual_seed(stream_key(*key))
                self._drawn = epoch, self._transform.draw(len(self._images), generator)
            changes = {name: drawn[rows] for name, drawn in self._drawn[1].items()}
            return self._transform.apply(images, changes), labels
        changed = []
        with torch.random.fork_rng(devices=[]):
            for image, (_, index) in zip(images, pairs, strict=True):
                torch.default_generator.manual_seed(stream_key(*key, index))
                changed.append(self._transform(image))
        return torch.stack(changed), labels


def images_source(benchmark: Benchmark) -> str:
    """Identity of a benchmark's images: its source, every field but `root`, and its revision."""
    compared = [field for field in dataclasses.fields(benchmark) if field.compare]  # type: ignore[arg-type]
    fields = {field.name: getattr(benchmark, field.name) for field in compared}
    fields.pop("root", None)
    revision = getattr(benchmark, "revision", 1)
    with _named(benchmark, "source()"):
        source = benchmark.source()
    return fingerprint(source, json.dumps(fields, default=str, sort_keys=True), f"revision {revision}")


def images_file(benchmark: Benchmark, split: Split, cache: Path) -> Path:
    """The cache file of a split's images: `cache/images-<name>-<source>/<split>.json`, beside the array."""
    return Path(cache) / f"images-{benchmark.name}-{images_source(benchmark)}" / f"{split}.json"


def read_split(benchmark: Benchmark, split: Split, progress: Progress = quiet) -> Decoded:
    """Read and check a split of a benchmark. Nothing is written.

    Raises:
        InputError: the split is unknown, data are missing or unreadable, or the images do not match the benchmark's
            attributes.
        ClosedSplitError: see `fsl.benchmarks.closed_splits`.
    """
    _check_split(split)
    with progress.track(f"reading {benchmark.name}, {split}", 1) as advance, _named(benchmark, f"read({split!r})"):
        decoded = Decoded(*benchmark.read(split))
        advance(1)
    shape, count, classes = tuple(decoded.images.shape), len(decoded.labels), len(decoded.class_names)
    expected = (count, benchmark.channels, benchmark.size, benchmark.size)
    if shape != expected or not count:
        raise _wrong(benchmark, f"images of {split} must be uint8 of shape {expected}, at least one, not {shape}")
    if decoded.labels.dtype != np.int64 or not np.array_equal(np.unique(decoded.labels), np.arange(classes)):
        what = f"labels of {split} must be int64 and use each of 0..{classes - 1}, one for each class name"
        raise _wrong(benchmark, what)
    return decoded


def open_images(
    benchmark: Benchmark, split: Split, cache: Path, progress: Progress = quiet, decoded: Decoded | None = None
) -> ImageSet:
    """Images of a split, from their `images_file`, written if missing.

    The files are created atomically. If several processes need them, one decodes and the others wait. Those whose size
    or time has changed since are written again.

    Args:
        benchmark: the benchmark.
        split: the split.
        cache: folder of the cache.
        progress: shows progress.
        decoded: the result of `read_split`, if already available.

    Raises:
        InputError: see `read_split`; also if a class is in another split too.
        ClosedSplitError: see `fsl.benchmarks.closed_splits`.
    """
    _check_split(split)
    path = images_file(benchmark, split, cache)
    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(path.with_suffix(".lock")):
        if images := _opened(path, progress):
            return images
        decoded = decoded or read_split(benchmark, split, progress)
        _check_disjoint(benchmark, split, decoded.class_names, path.parent)
        _write(benchmark, split, decoded, path, progress)
        return _mapped(path)


def _check_split(split: Split) -> None:
    if split not in SPLITS:
        raise unknown("split", split, SPLITS)
    check_open(split)


def _wrong(benchmark: Benchmark, problem: str) -> InputError:
    return InputError(f"benchmark {benchmark.name}: {problem}; correct its read()")


@contextlib.contextmanager
def _named(benchmark: Benchmark, doing: str) -> Iterator[None]:
    """Add the benchmark's name to the errors of its files, as InputError."""
    try:
        yield
    except UNREADABLE as error:
        reason = f"{type(error).__name__}: {error}"
        if isinstance(error, OSError) and error.filename and error.strerror:
            reason = f"{error.filename}: {error.strerror}"
        place = getattr(benchmark, "root", None)
        files = f"the files under root={place}" if place else "its files"
        raise InputError(
            f"benchmark {benchmark.name}: {doing}: {reason}; check that {files} exist and are complete"
        ) from error


def _write(benchmark: Benchmark, split: Split, data: Decoded, path: Path, progress: Progress) -> None:
    """Decode a split into its array, block by block. The description comes last: it says that the array is whole."""
    shape, size = tuple(data.images.shape), int(np.prod(data.images.shape))
    checksum = Fingerprint(json.dumps(list(shape)))
    checksum.begin(size)

    def decoded(part: slice) -> NDArray[np.uint8]:
        with _named(benchmark, f"images of {split}"):
            return np.ascontiguousarray(data.images[part])

    count = max(1, BLOCK_BYTES * len(data.labels) // size)
    parts = (slice(start, start + count) for start in range(0, len(data.labels), count))
    path.unlink(missing_ok=True)
    with (
        progress.track(f"decoding {benchmark.name}, {split}", len(data.labels)) as advance,
        replacing(path.with_suffix(".npy")) as partial,
        partial.open("wb") as file,  # written as a file, since a full disk kills a process that writes to a map
    ):
        np.lib.format.write_array_header_1_0(file, {"descr": "|u1", "fortran_order": False, "shape": shape})
        for _, block in on_each_core(decoded, parts):
            if block.dtype != np.uint8:
                raise _wrong(benchmark, f"images of {split} must be uint8, not {block.dtype}")
            file.write(block.data)
            checksum.go_on(block.data)
            advance(len(block))
    checksum.add(data.labels.data)
    checksum.add(json.dumps(data.class_names))
    about = {"format": FORMAT, "class_names": data.class_names, "labels": data.labels.tolist()}
    with replacing(path) as partial:
        partial.write_text(json.dumps({**about, "fingerprint": str(checksum), "state": _state(path)}), encoding="utf-8")


def _check_disjoint(benchmark: Benchmark, split: Split, class_names: tuple[str, ...], folder: Path) -> None:
    """Check that no class of the split is in another split that has been read. Base and validation may share classes
    if the benchmark's authors validate on base classes."""
    for other in SPLITS:
        if getattr(benchmark, "validates_on_base", False) and {split, other} == {"base", "validation"}:
            continue
        known = _opened(folder / f"{other}.json", quiet) if other != split else None
        if known and (shared := sorted(set(class_names) & set(known.class_names))):
            raise InputError(
                f"benchmark {benchmark.name}: class {shared[0]!r} is in {other} and in {split} ({len(shared)} such "
                "classes); each class must be in one split only, and class names must be unique"
            )


def _state(path: Path) -> list[int]:
    """Size and time of the array of a description, by which it is recognised without reading it."""
    return list(state_of(path.with_suffix(".npy"))[2:])


def _mapped(path: Path, expected: str | None = None) -> ImageSet:
    """The memory-mapped images that a description is of; with `expected`, those that another process has checked."""
    about = json.loads(path.read_text(encoding="utf-8"))
    if about["format"] != FORMAT:
        raise ValueError(f"of format {about['format']!r}")
    if expected not in (None, about["fingerprint"]):
        raise InputError(f"{path}: was replaced by another process; run the same command again")
    if about["state"] != _state(path):
        raise ValueError("the array is another one")
    images = torch.from_numpy(np.lib.format.open_memmap(path.with_suffix(".npy"), mode="c"))
    return ImageSet(images, torch.tensor(about["labels"]), tuple(about["class_names"]), about["fingerprint"], path)


def _opened(path: Path, progress: Progress) -> ImageSet | None:
    """The memory-mapped images of a description; None if there are none, or they are damaged."""
    try:
        return _mapped(path) if path.exists() else None
    except (OSError, KeyError, TypeError, ValueError) as error:
        progress.note(f"{path}: is damaged ({type(error).__name__}: {error}); it is written again")
        return None
