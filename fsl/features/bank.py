"""Feature banks: features of a whole split, extracted once, stored on disk and memory-mapped."""

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

from clustering.files.tensors import read_tensors, write_tensors
from clustering.foundation.cores import on_each_core
from clustering.foundation.errors import InputError
from clustering.foundation.progress import Progress, quiet
from fsl.benchmarks.augmentation import normalise
from fsl.episodes import LOGIT_SCALE
from fsl.evaluation.closed_splits import check_open
from fsl.features.arrays import as_features, as_features_and_labels, as_vector
from fsl.features.conforming import Interpolation, conform
from fsl.features.conversion import Given, converted
from fsl.machine import resolve_device

if TYPE_CHECKING:
    from fsl.benchmarks.images import ImageSet

FORMAT = "transduce features 1"
_ROWS = 1 << 16  # rows checked at once, to limit memory for large banks


@dataclass(frozen=True, eq=False)
class FeatureBank:
    """Features of the N images of one split, from one backbone, with dimension D and K classes.

    Attributes:
        features: (N, D) float32, finite.
        labels: (N,) int64 in 0..K-1.
        class_names: K names.
        base_mean: (D,) mean feature of the base classes, which CL2N subtracts; None if unknown.
        provenance: origin of the features: fingerprints of checkpoint and images, the test-time transform, versions.
        told: (N,) bool mask of the points whose labels were used to train the backbone; None if there are none.
        text: (K, D) float32 features of the class names, from the text tower of the network; None without class names.
        logit_scale: factor of the cosines between images and class names.
        prompts: templates of the texts whose mean is `text`, such as "a photo of a {}."; empty if unknown.

    Raises:
        InputError: features are NaN or infinite, labels are out of range, or sizes do not agree.
    """

    features: Tensor
    labels: Tensor
    class_names: tuple[str, ...]
    base_mean: Tensor | None = None
    provenance: Mapping[str, str] = field(default_factory=dict)
    told: Tensor | None = None
    text: Tensor | None = None
    logit_scale: float = LOGIT_SCALE
    prompts: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _check(self, "feature bank")

    @classmethod
    def from_arrays(
        cls,
        features: Any,
        labels: Any = None,
        *,
        class_names: Sequence[str] | None = None,
        text: Any = None,
        logit_scale: float = LOGIT_SCALE,
        base_mean: ArrayLike | None = None,
        column: str | None = None,
        label_column: str | None = None,
        provenance: Mapping[str, str] | None = None,
    ) -> "FeatureBank":
        """A feature bank of arrays in memory: the same as `fsl.features.import_features` makes of them in files.

        Classes are numbered in the order of the labels; with class names, labels are their indices, or the names
        themselves. With text, rows of images and texts are first scaled to unit length in their own precision.

        Args:
            features: (N, D) array of NumPy or tensor; or a frame of pandas or table of Arrow with a column of lists, or
                columns of floats.
            labels: (N,) integers or names; None: a column of `features`.
            class_names: K names.
            text: (K, D) features of the class names, in the forms of `features`.
            logit_scale: factor of the cosines between images and class names.
            base_mean: (D,) mean of the raw features of the base classes, which CL2N subtracts.
            column, label_column: columns of features and labels; None: chosen by name. For columns of numbers `column`
                may be a pattern, such as "emb_*".
            provenance: origin of the features.

        Raises:
            InputError: the arrays do not fit each other, contain other values than needed, or a column is missing or
                not unique.
        """
        rows, own_labels = as_features_and_labels(features, labels, column, label_column)
        given = Given(
            rows,
            own_labels,
            None if class_names is None else tuple(map(str, class_names)),
            None if base_mean is None else as_vector(base_mean, "base_mean"),
            None if text is None else as_features(text, name="text"),
            float(as_vector(logit_scale, "logit_scale")),
        )
        return cls(**converted(given), provenance=dict(provenance or {}))

    @property
    def dimension(self) -> int:
        """D, the number of features."""
        return self.features.shape[1]

    def fingerprint(self) -> str:
        """Hash of all values and names in the bank, but not of its provenance: 16 hexadecimal digits."""
        return self._fingerprint

    @cached_property
    def _fingerprint(self) -> str:
        digest = hashlib.sha256(json.dumps([list(self.features.shape), *self.class_names]).encode())
        for tensor in (self.features, self.labels, self.base_mean):
            digest.update(b"none" if tensor is None else tensor.contiguous().numpy().data)
        if self.text is not None:
            digest.update(repr(self.logit_scale).encode())
            digest.update(self.text.contiguous().numpy().data)
        return digest.hexdigest()[:16]

    def save(self, path: Path) -> None:
        """Write the bank to a safetensors file. The file is replaced atomically."""
        tensors = {"features": self.features, "labels": self.labels}
        if self.base_mean is not None:
            tensors["base_mean"] = self.base_mean
        if self.told is not None:
            tensors["told"] = self.told
        if self.text is not None:
            tensors["text"] = self.text
        header = {
            "format": FORMAT,
            "class_names": json.dumps(self.class_names),
            "provenance": json.dumps(dict(self.provenance), sort_keys=True),
        }
        if self.text is not None:
            header |= {"logit_scale": repr(self.logit_scale), "prompts": json.dumps(self.prompts)}
        write_tensors(path, tensors, header)

    @classmethod
    def load(cls, path: Path, remedy: str = "remove it, so that the features are extracted again") -> "FeatureBank":
        """Read and check a bank. Its tensors are memory-mapped.

        Args:
            path: the file.
            remedy: advice for the error message about an invalid file.

        Raises:
            InputError: the file is missing, truncated, of another format or invalid; the message names the file.
            ClosedSplitError: the bank belongs to a closed split, see `fsl.evaluation.closed_splits`.
        """
        path = Path(path)
        tensors, header = read_tensors(path, FORMAT, remedy)
        try:
            names = tuple(json.loads(header["class_names"]))
            provenance = dict(json.loads(header["provenance"]))
            features, labels = tensors["features"], tensors["labels"]
            bank = cls(
                features,
                labels,
                names,
                tensors.get("base_mean"),
                provenance,
                tensors.get("told"),
                tensors.get("text"),
                float(header.get("logit_scale", LOGIT_SCALE)),
                tuple(json.loads(header.get("prompts", "[]"))),
            )
        except InputError as error:
            raise InputError(f"{path}: {error}; {remedy}") from error
        except KeyError as error:
            raise InputError(f"{path}: not a feature bank, because it lacks {error}; {remedy}") from error
        except (TypeError, ValueError, RecursionError) as error:
            raise InputError(f"{path}: its header is damaged ({error}); {remedy}") from error
        check_open(str(provenance.get("split", "")))
        return bank


def _check(bank: FeatureBank, subject: str) -> None:
    features, labels, names, mean = bank.features, bank.labels, bank.class_names, bank.base_mean
    if features.ndim != 2 or features.dtype != torch.float32 or not features.numel():
        raise InputError(f"{subject}: features must be float32 of shape (N, D), not {_describe(features)}")
    if labels.dtype != torch.int64 or labels.shape != features.shape[:1]:
        raise InputError(f"{subject}: labels must be int64 of shape ({len(features)},), not {_describe(labels)}")
    if bank.told is not None and (bank.told.dtype != torch.bool or bank.told.shape != labels.shape):
        raise InputError(f"{subject}: told must be bool of shape ({len(features)},), not {_describe(bank.told)}")
    low, high = int(labels.min()), int(labels.max())
    if low < 0 or high >= len(names):
        raise InputError(f"{subject}: labels run from {low} to {high}, but there are {len(names)} class names")
    if mean is not None and (mean.dtype != torch.float32 or mean.shape != features.shape[1:]):
        raise InputError(f"{subject}: base_mean must be float32 of shape ({features.shape[1]},), not {_describe(mean)}")
    if mean is not None and not mean.square().sum().isfinite():
        raise InputError(f"{subject}: NaN or infinite values in base_mean, or too large to be squared")
    if bank.text is not None:
        _check_text(bank.text, features.shape[1], names, subject)
        if not 0 < bank.logit_scale < math.inf:
            raise InputError(f"{subject}: logit_scale must be positive and finite, not {bank.logit_scale!r}")
    for start in range(0, len(features), _ROWS):
        finite = features[start : start + _ROWS].square().sum(dim=1).isfinite()
        if not finite.all():
            row = start + int((~finite).nonzero()[0])
            raise InputError(f"{subject}: NaN or infinite values in features, or too large to be squared: row {row}")


def _check_text(text: Tensor, dimension: int, names: tuple[str, ...], subject: str) -> None:
    if text.dtype != torch.float32 or text.shape != (len(names), dimension):
        raise InputError(
            f"{subject}: text must be float32 of shape ({len(names)}, {dimension}), one row per class, not "
            f"{_describe(text)}"
        )
    bad = ~text.square().sum(dim=1).isfinite() | (text == 0).all(dim=1)
    if bad.any():
        name = names[int(bad.nonzero()[0])]
        raise InputError(f"{subject}: the text feature of class {name!r} is zero, NaN, infinite, or too large")


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
    """Extract the features of all images with the deterministic test-time transform: resizing and normalisation.

    Args:
        backbone: maps (N, C, H, W) to (N, D); moved to the device, and returned to its previous mode.
        images: N images.
        mean, std: per-channel mean and standard deviation of the backbone's training images, scaled to 0..1.
        size: side of the backbone's input in pixels; images with another size or number of channels are converted, see
            `fsl.features.conforming`. None: the images already have the right form.
        interpolation: interpolation for resizing.
        batch_size: images per batch; None: chosen for the device, see `suitable_batch`.
        device: "auto", "cpu", "cuda", "cuda:N".

    Returns:
        (N, D) float32 features on the CPU.
    """
    place = resolve_device(device)
    side = size or images.images.shape[-1]
    if batch_size is None:
        batch_size = suitable_batch(place, len(mean) * side**2)
    if not len(images.labels):
        raise InputError("no images to extract features from")
    training = backbone.training
    backbone.to(place, memory_format=torch.channels_last).eval()  # type: ignore[call-overload]

    def work(batch: Tensor) -> Tensor:
        return forward(backbone, conform(batch.to(place), len(mean), side, interpolation), mean, std)

    batches = torch.split(images.images, batch_size)
    features, filled = torch.empty(0), 0
    try:
        with progress.track("extracting features", len(images.labels)) as advance:
            parts = ((batch, work(batch)) for batch in batches)
            for _, part in parts if place.type != "cpu" else on_each_core(work, batches):
                if not filled:
                    features = torch.empty(len(images.labels), part.shape[1])
                features[filled : filled + len(part)] = part
                filled += len(part)
                advance(len(part))
    finally:
        backbone.train(training)
    return features


def forward(backbone: nn.Module, pixels: Tensor, mean: Sequence[float], std: Sequence[float]) -> Tensor:
    """(N, D) float32 features on the CPU, of (N, C, H, W) images in 0..255 on the backbone's device."""
    with torch.inference_mode():
        features: Tensor = backbone(normalise(pixels, mean, std).contiguous(memory_format=torch.channels_last))
        return features.float().cpu()


def suitable_batch(place: torch.device, numbers: int) -> int:
    """Batch size for images of `numbers` values each. On a CPU, the activations of a batch fit in a core's cache."""
    if place.type != "cpu":
        return max(1, min(512, (1 << 25) // numbers))
    at_once = min(1 << 19, (1 << 23) // torch.get_num_threads())
    return max(1, min(512, at_once // numbers))
