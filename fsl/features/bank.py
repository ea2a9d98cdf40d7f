"""Features of a whole split: extracted once, kept on disk, memory-mapped when read."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from clustering.files.tensors import read_tensors, write_tensors
from clustering.foundation.cores import on_each_core
from clustering.foundation.errors import InputError
from fsl.evaluation.closed_splits import check_open
from fsl.features.conforming import Interpolation, conform
from fsl.progress import Progress, quiet
from fsl.training.augmentation import normalise
from fsl.training.machine import resolve_device

if TYPE_CHECKING:
    from fsl.benchmarks.images import ImageSet

FORMAT = "transduce features 1"
_ROWS = 1 << 16  # rows looked at in one piece, so that checking a large bank takes little memory


@dataclass(frozen=True, eq=False)
class FeatureBank:
    """Features of the images of one split, made by one backbone. N images, D features, K classes.

    Attributes:
        features: (N, D) float32, finite.
        labels: (N,) int64 in 0..K-1.
        class_names: K names.
        base_mean: (D,) mean feature of the base classes, which CL2N subtracts; None where it is not known.
        provenance: what made it: fingerprints of checkpoint and images, the test-time transform, versions.
        told: (N,) bool, points whose class the backbone was trained with; None where it is so of none.

    Raises:
        InputError: NaN or infinite features, labels out of range, sizes that do not fit each other.
    """

    features: Tensor
    labels: Tensor
    class_names: tuple[str, ...]
    base_mean: Tensor | None = None
    provenance: Mapping[str, str] = field(default_factory=dict)
    told: Tensor | None = None

    def __post_init__(self) -> None:
        _check(self, "feature bank")

    @property
    def dimension(self) -> int:
        """D, the number of features."""
        return self.features.shape[1]

    def fingerprint(self) -> str:
        """16 hexadecimal digits that depend on every number and name in the bank, not on its provenance."""
        return self._fingerprint

    @cached_property
    def _fingerprint(self) -> str:
        digest = hashlib.sha256(json.dumps([list(self.features.shape), *self.class_names]).encode())
        for tensor in (self.features, self.labels, self.base_mean):
            digest.update(b"none" if tensor is None else tensor.contiguous().numpy().data)
        return digest.hexdigest()[:16]

    def save(self, path: Path) -> None:
        """Write to a safetensors file in one step: `path` holds the whole bank or what it held before."""
        tensors = {"features": self.features, "labels": self.labels}
        if self.base_mean is not None:
            tensors["base_mean"] = self.base_mean
        if self.told is not None:
            tensors["told"] = self.told
        header = {
            "format": FORMAT,
            "class_names": json.dumps(self.class_names),
            "provenance": json.dumps(dict(self.provenance), sort_keys=True),
        }
        write_tensors(path, tensors, header)

    @classmethod
    def load(cls, path: Path, remedy: str = "remove it, so that the features are extracted again") -> "FeatureBank":
        """Read and check a bank; its tensors are mapped from the file, not copied.

        Args:
            path: the file.
            remedy: what the user can do about a bad file, for the message.

        Raises:
            InputError: names the file: missing, truncated, of another format, or with wrong contents.
            ClosedSplitError: its provenance names a split that is closed, see `fsl.evaluation.closed_splits`.
        """
        path = Path(path)
        tensors, header = read_tensors(path, FORMAT, remedy)
        try:
            names = tuple(json.loads(header["class_names"]))
            provenance = dict(json.loads(header["provenance"]))
            features, labels = tensors["features"], tensors["labels"]
            bank = cls(features, labels, names, tensors.get("base_mean"), provenance, tensors.get("told"))
        except InputError as error:
            raise InputError(f"{path}: {error}; {remedy}") from error
        except KeyError as error:
            raise InputError(f"{path}: lacks {error}, so it is no feature bank; {remedy}") from error
        except (TypeError, ValueError, RecursionError) as error:
            raise InputError(f"{path}: its header is damaged ({error}); {remedy}") from error
        check_open(str(provenance.get("split", "")))
        return bank


def _check(bank: FeatureBank, what: str) -> None:
    features, labels, names, mean = bank.features, bank.labels, bank.class_names, bank.base_mean
    if features.ndim != 2 or features.dtype != torch.float32 or not features.numel():
        raise InputError(f"{what}: features must be float32 of shape (N, D), not {_describe(features)}")
    if labels.dtype != torch.int64 or labels.shape != features.shape[:1]:
        raise InputError(f"{what}: labels must be int64 of shape ({len(features)},), not {_describe(labels)}")
    if bank.told is not None and (bank.told.dtype != torch.bool or bank.told.shape != labels.shape):
        raise InputError(f"{what}: told must be bool of shape ({len(features)},), not {_describe(bank.told)}")
    low, high = int(labels.min()), int(labels.max())
    if low < 0 or high >= len(names):
        raise InputError(f"{what}: labels run from {low} to {high}, but there are {len(names)} class names")
    if mean is not None and (mean.dtype != torch.float32 or mean.shape != features.shape[1:]):
        raise InputError(f"{what}: base_mean must be float32 of shape ({features.shape[1]},), not {_describe(mean)}")
    if mean is not None and not mean.square().sum().isfinite():
        raise InputError(f"{what}: NaN or infinite values in base_mean, or too large to be squared")
    for start in range(0, len(features), _ROWS):
        finite = features[start : start + _ROWS].square().sum(dim=1).isfinite()
        if not finite.all():
            row = start + int((~finite).nonzero()[0])
            raise InputError(f"{what}: NaN or infinite values in features, or too large to be squared: row {row}")


def _describe(tensor: Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')} of shape {tuple(tensor.shape)}"


def extract(
    backbone: nn.Module,
    images: "ImageSet",
    *,
    mean: Sequence[float],
    std: Sequence[float],
    size: int | None = None,
    interpolation: Interpolation = "bilinear",
    batch_size: int | None = None,
    device: str = "auto",
    progress: Progress = quiet,
) -> Tensor:
    """Features of all images under the test-time transform: scaled and normalised, nothing random.

    Args:
        backbone: maps (N, C, H, W) to (N, D); moved to the device, and left in the mode that it was in.
        images: N images.
        mean, std: of the benchmark that the backbone was trained on, per channel of images scaled to 0..1.
        size: side of that benchmark's images; those of another size or of other channels are made like them (see
            `fsl.features.conforming`). None where they are as they should be.
        interpolation: how those of another size get it.
        batch_size: images at a time; None: as many as suit the device, see `suitable_batch`.
        device: "auto", "cpu", "cuda", "cuda:N".

    Returns:
        (N, D) float32 on the CPU.
    """
    place = resolve_device(device)
    side = size or images.images.shape[-1]
    if batch_size is None:
        batch_size = suitable_batch(place, len(mean) * side**2)
    if not len(images.labels):
        raise InputError("there are no images to extract features from")
    training = backbone.training
    backbone.to(place, memory_format=torch.channels_last).eval()  # type: ignore[call-overload]

    def work(batch: Tensor) -> Tensor:
        return forward(backbone, conform(batch.to(place), len(mean), side, interpolation), mean, std)

    batches = torch.split(images.images, batch_size)
    features, done = torch.empty(0), 0
    try:
        with progress.track("extracting features", len(images.labels)) as advance:
            parts = ((batch, work(batch)) for batch in batches)
            for _, found in parts if place.type != "cpu" else on_each_core(work, batches):
                if not done:
                    features = torch.empty(len(images.labels), found.shape[1])
                features[done : done + len(found)] = found
                done += len(found)
                advance(len(found))
    finally:
        backbone.train(training)
    return features


def forward(backbone: nn.Module, pixels: Tensor, mean: Sequence[float], std: Sequence[float]) -> Tensor:
    """Features (N, D) float32 on the CPU of images (N, C, H, W) in 0..255 on the backbone's device."""
    with torch.inference_mode():
        found: Tensor = backbone(normalise(pixels, mean, std).contiguous(memory_format=torch.channels_last))
        return found.float().cpu()


def suitable_batch(place: torch.device, numbers: int) -> int:
    """How many images of so many numbers to work on at once: on a CPU those whose activations stay in a core's cache,
    so that those of all cores stay in memory."""
    if place.type != "cpu":
        return max(1, min(512, (1 << 25) // numbers))
    at_once = min(1 << 19, (1 << 23) // torch.get_num_threads())
    return max(1, min(512, at_once // numbers))
