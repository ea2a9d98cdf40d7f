"""Pictures of any size and kind as features, by a network whose weights exist already."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor, nn

from clustering.foundation.cores import on_each_core
from clustering.foundation.errors import InputError
from clustering.foundation.fingerprint import fingerprint
from clustering.foundation.parameters import mismatch
from fsl.benchmarks import BENCHMARKS
from fsl.benchmarks.encoded import open_rgb, read_bytes, squared
from fsl.features.bank import forward, suitable_batch
from fsl.features.conforming import conform
from fsl.progress import Progress, quiet
from fsl.training.machine import resolve_device
from fsl.weights.checkpoints import load_backbone
from fsl.weights.foreign import TORCH
from fsl.weights.pretrained import PREFIX, Look, look_of, pretrained_backbone, weights_fingerprint

Picture: TypeAlias = str | Path | Image.Image | NDArray[np.uint8] | NDArray[np.uint16]
"""A file, a picture of Pillow's, or pixels (H, W), (H, W, 3) or (H, W, 4)."""


class Encoded(NamedTuple):
    """Features of pictures.

    Attributes:
        features: (N, D) float32 on the CPU, of the pictures that could be read.
        kept: (N,) int64, which of the pictures they are of, ascending.
        broken: what is wrong with each of the others, by its index.
    """

    features: Tensor
    kept: Tensor
    broken: dict[int, str]


@dataclass(frozen=True, eq=False)
class ImageEncoder:
    """A network with all that it takes to show it pictures; made by `of`.

    Attributes:
        network: maps (N, channels, size, size) to (N, D); in evaluation mode, on the device.
        name: what it was asked for by: "timm:NAME", or the name of the checkpoint's file.
        look: channels, size, mean and std of what the network takes, and how a picture becomes that.
        fingerprint: of its weights and of the look, 16 hexadecimal digits.
        device: where it is.
    """

    network: nn.Module
    name: str
    look: Look
    fingerprint: str
    device: torch.device
    _square: Callable[[Image.Image], Any] = field(repr=False)

    @property
    def feature_size(self) -> int:
        """D."""
        return int(self.network.feature_size)  # type: ignore[arg-type]

    @classmethod
    def of(
        cls, backbone: str | Path, *, weights: str | Path | None = None, size: int | None = None, device: str = "auto"
    ) -> Self:
        """The encoder of a network of timm, or of a checkpoint of this project.

        A picture is shown to a network of timm as timm does it for evaluation, and to one of a checkpoint as
        `benchmark=folder` does it: the middle cut out and scaled (Lanczos).

        Args:
            backbone: "timm:NAME", or a file that `transduce train` or `transduce import checkpoint` wrote.
            weights: of a network of timm: a file of them; None for those that timm knows of.
            size: of a network of timm: side in pixels, other than that of its training.
            device: "auto", "cpu", "cuda", "cuda:N".

        Raises:
            InputError: a network, a file or weights that are not there, or do not fit each other.
        """
        place = resolve_device(device)
        name = str(backbone)
        if name.startswith(PREFIX):
            timm_name = name.removeprefix(PREFIX)
            network = pretrained_backbone(timm_name, Path(weights).expanduser() if weights else None, size=size)
            look = look_of(timm_name, size)
            square: Callable[[Image.Image], Any] = look.transform()
        elif weights is not None or size is not None:
            raise InputError(f"{name}: weights and size can be given for networks of timm only; write {PREFIX}NAME")
        else:
            path = Path(name).expanduser()
            if not path.is_file():
                raise InputError(f"{name}: no such checkpoint; give a file, or {PREFIX}NAME for a network of timm")
            if path.suffix in TORCH or path.suffix == ".npz":
                raise InputError(
                    f"{name}: weights of another program; make them a checkpoint: transduce import checkpoint {name} "
                    "backbone=NAME benchmark=NAME"
                )
            network = load_backbone(path)
            look, name = _look_of_checkpoint(network, path), path.name

            def square(picture: Image.Image) -> NDArray[np.uint8]:
                return np.asarray(squared(picture, look.size, "crop")).transpose(2, 0, 1)

        network = network.to(place, memory_format=torch.channels_last).eval()  # type: ignore[call-overload]
        return cls(network, name, look, fingerprint(weights_fingerprint(network), repr(look)), place, square)

    def encode(
        self,
        pictures: Sequence[Picture],
        *,
        broken: Literal["raise", "skip"] = "raise",
        batch_size: int | None = None,
        progress: Progress = quiet,
    ) -> Encoded:
        """Features of pictures: turned upright as their EXIF data say, white where transparent, in colour or grey as
        the network takes them.

        They are read and decoded by all cores, a few batches ahead of the network, whatever their number.

        Args:
            pictures: N of them.
            broken: what is done about one that cannot be read or decoded: an error that names it, or without it.
            batch_size: pictures shown to the network at once; None: as many as suit the device.

        Raises:
            InputError: no pictures, or one that cannot be read or decoded.
        """
        listed = hasattr(pictures, "__getitem__") and not isinstance(pictures, (str, bytes, Mapping))
        if not listed or not len(pictures):
            raise InputError(f"pictures must be a list of at least one file, picture or array, not {pictures!r:.60}")
        for key, value, kind in (("broken", broken, Literal["raise", "skip"]), ("batch_size", batch_size, int | None)):
            problem = mismatch(value, kind)
            if problem:
                raise InputError(f"{key} must be {problem}, not {value!r}")
        if batch_size is not None and batch_size < 1:
            raise InputError(f"batch_size must be at least 1, not {batch_size}")
        size = batch_size or suitable_batch(self.device, self.look.channels * self.look.size**2)
        batches = (range(start, min(start + size, len(pictures))) for start in range(0, len(pictures), size))
        features, kept, wrong = torch.empty(len(pictures), self.feature_size), list[int](), dict[int, str]()
        with progress.track("encoding pictures", len(pictures)) as advance:
            for batch, (found, problems) in self._encoded(pictures, batches, broken == "skip"):
                rows = [index for index in batch if index not in problems]
                features[len(kept) : len(kept) + len(rows)] = found
                kept += rows
                wrong |= problems
                advance(len(batch))
        return Encoded(features[: len(kept)], torch.tensor(kept, dtype=torch.int64), wrong)

    def _encoded(
        self, pictures: Sequence[Picture], batches: Iterator[range], skip: bool
    ) -> Iterator[tuple[range, tuple[Tensor, dict[int, str]]]]:
        """Features and problems of each batch: on a CPU each core does all of a batch, else all but the network."""

        def decoded(batch: range) -> tuple[NDArray[np.uint8], dict[int, str]]:
            return self._decoded(pictures, batch, skip)

        def encoded(batch: range) -> tuple[Tensor, dict[int, str]]:
            pixels, problems = decoded(batch)
            return self._features(pixels), problems

        if self.device.type == "cpu":
            yield from on_each_core(encoded, batches)
        else:
            for batch, (pixels, problems) in on_each_core(decoded, batches):
                yield batch, (self._features(pixels), problems)

    def _decoded(
        self, pictures: Sequence[Picture], batch: range, skip: bool
    ) -> tuple[NDArray[np.uint8], dict[int, str]]:
        """Pixels (n, 3, size, size) of the pictures of a batch that can be decoded; what is wrong with the others."""
        pixels, problems = np.empty((len(batch), 3, self.look.size, self.look.size), np.uint8), dict[int, str]()
        for index in batch:
            try:
                picture = _read(pictures[index], index, self.look.size)
            except InputError as error:
                if not skip:
                    raise
                problems[index] = str(error)
            else:
                pixels[index - batch.start - len(problems)] = self._square(picture)
        return pixels[: len(batch) - len(problems)], problems

    def _features(self, pixels: NDArray[np.uint8]) -> Tensor:
        if not len(pixels):
            return torch.empty(0, self.feature_size)
        shown = conform(torch.from_numpy(pixels).to(self.device), self.look.channels, self.look.size)
        return forward(self.network, shown, self.look.mean, self.look.std)


def _read(picture: Picture, index: int, size: int) -> Image.Image:
    """A picture in colour, upright.

    Raises:
        InputError: names it, by its file or its number.
    """
    name = os.fspath(picture) if isinstance(picture, (str, Path)) else f"picture {index}"
    if isinstance(picture, (str, Path)):
        try:
            stored: bytes | NDArray[np.uint8] | Image.Image = read_bytes(name)
        except OSError as error:
            raise InputError(f"{name}: cannot be read ({error.strerror}); put it there again") from error
    elif isinstance(picture, np.ndarray):
        shaped = picture.size and picture.ndim in (2, 3) and picture.shape[2:] in ((), (1,), (3,), (4,))
        if picture.dtype not in (np.uint8, np.uint16) or not shaped:
            raise InputError(
                f"{name}: arrays must be uint8 or uint16 of shape (H, W), (H, W, 3) or (H, W, 4), "
                f"not {picture.dtype} of shape {picture.shape}"
            )
        levels = (picture >> 8 if picture.dtype == np.uint16 else picture).astype(np.uint8, copy=False)
        stored = levels[:, :, 0] if levels.shape[2:] == (1,) else levels
    elif isinstance(picture, Image.Image):
        stored = picture
    else:
        raise InputError(f"{name}: must be a file, a picture of Pillow's or an array, not {type(picture).__name__}")
    return open_rgb(stored, name, least=size, upright=True)


def _look_of_checkpoint(network: nn.Module, path: Path) -> Look:
    """What the network of a checkpoint takes, as its header says, or the benchmark that it names."""
    channels, size, about = (getattr(network, key) for key in ("channels", "size", "about"))
    if "mean" in about and "std" in about:
        return Look(channels, size, about["mean"], about["std"])
    named = about.get("benchmark") if isinstance(about, dict) else None
    if named not in BENCHMARKS.names():  # a file must not choose which module is imported
        raise InputError(
            f"{path}: does not say how the images that it was trained on were normalised; make it again: "
            "transduce import checkpoint FILE backbone=NAME benchmark=NAME"
        )
    kind = BENCHMARKS.load(named)
    return Look(channels, size, kind.mean, kind.std)
