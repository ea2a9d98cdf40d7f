"""Features of pictures of any size and format, from a trained network."""

import dataclasses
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from shlex import quote
from typing import Any, Literal, NamedTuple, Self, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor, nn

from clustering.files.pictures import open_picture, squared
from clustering.files.regular import read_bytes
from clustering.files.tensors import fingerprint_of
from clustering.files.torch_files import TORCH
from clustering.foundation.devices import resolve_device
from clustering.foundation.errors import InputError
from clustering.foundation.fingerprint import fingerprint
from clustering.foundation.progress import Progress, quiet
from clustering.lengths import unit_rows
from fsl.backbones.names import OPEN_CLIP, PACKAGED, TIMM
from fsl.features.pictures import features_of
from fsl.features.prompts import PROMPTS, texts_of
from fsl.weights.checkpoints import load_backbone
from fsl.weights.open_clip_networks import TwoTowers, open_clip_network
from fsl.weights.pretrained import Look, packaged_backbone, pretrained_backbone

Picture: TypeAlias = str | Path | Image.Image | NDArray[np.uint8] | NDArray[np.uint16]
"""A file, a Pillow image, or an array of pixels (H, W), (H, W, 3) or (H, W, 4)."""


class Encoded(NamedTuple):
    """Features of pictures.

    Attributes:
        features: (N, D) float32 features on the CPU, of the readable pictures.
        kept: (N,) int64 indices of the readable pictures, ascending.
        broken: error messages of the other pictures, by index.
    """

    features: Tensor
    kept: Tensor
    broken: dict[int, str]


@dataclass(frozen=True, eq=False)
class ImageEncoder:
    """A network with the preprocessing of its input; created by `of`.

    Attributes:
        network: maps (N, channels, size, size) to (N, D); in evaluation mode, on the device.
        name: "timm:NAME", "open_clip:NAME", "efficientnet_lite0", or the file name of the checkpoint.
        look: channels, size, mean and standard deviation of the input, and the preprocessing of pictures.
        fingerprint: hash of the weights and the preprocessing, 16 hexadecimal digits.
        device: the device of the network.
    """

    network: nn.Module
    name: str
    look: Look
    fingerprint: str
    device: torch.device
    _square: Callable[[Image.Image], Any] = field(repr=False)

    @property
    def feature_size(self) -> int:
        """The dimension D of the features."""
        return int(self.network.feature_size)  # type: ignore[arg-type]

    @property
    def embeds_names(self) -> bool:
        """Whether the network has a text tower, for `encode_names` and `logit_scale`."""
        return isinstance(self.network, TwoTowers)

    @property
    def logit_scale(self) -> float:
        """Factor of the cosines between pictures and class names; only for networks with a text tower."""
        return self._towers.logit_scale

    @classmethod
    def of(
        cls, backbone: str | Path, *, weights: str | Path | None = None, size: int | None = None, device: str = "auto"
    ) -> Self:
        """Create the encoder of a network of timm or open_clip, or of a checkpoint of this project.

        For a network of timm or open_clip, and for "efficientnet_lite0", pictures are preprocessed as these libraries
        do for evaluation. For a checkpoint, they are preprocessed as for `benchmark=folder`: cropped to the central
        square and resized (Lanczos).

        Args:
            backbone: "timm:NAME"; "open_clip:NAME"; "efficientnet_lite0", whose weights are a package, see
                `fsl.weights.pretrained.packaged_backbone`; or a file written by `transduce train` or `transduce import
                checkpoint`.
            weights: for a timm network, a file of weights; None: timm's own weights. For a network of open_clip, a tag
                or a file, see `open_clip_network`.
            size: for a timm network, side of the input in pixels; None: that of its training.
            device: "auto", "cpu", "cuda", "cuda:N".

        Raises:
            InputError: the network, the file or the weights do not exist, or do not fit each other.
        """
        place, name = resolve_device(device), str(backbone)
        if not name.startswith(TIMM) and (size or (weights and not name.startswith(OPEN_CLIP))):
            raise InputError(
                f"{name}: weights apply to networks of timm and open_clip, and size to networks of timm; write "
                f"{TIMM}NAME or {OPEN_CLIP}NAME"
            )
        square: Callable[[Image.Image], Any] | None = None
        network: nn.Module
        if name.startswith(TIMM):
            file = Path(weights).expanduser() if weights else None
            network, look = pretrained_backbone(name.removeprefix(TIMM), file, size=size)
        elif name.startswith(OPEN_CLIP):
            network, look = open_clip_network(name.removeprefix(OPEN_CLIP), weights)
            name = f"{OPEN_CLIP}{network.name}"
        elif name == PACKAGED:
            network, look = packaged_backbone()
        else:
            network, look, name = _of_checkpoint(Path(name).expanduser())
            square = partial(_central_square, size=look.size)
        network = network.to(place, memory_format=torch.channels_last).eval()  # type: ignore[call-overload]
        identity = fingerprint(fingerprint_of(network.state_dict()), repr(look))
        return cls(network, name, look, identity, place, square or look.transform())

    def encode(
        self, pictures: Sequence[Picture], *, broken: Literal["raise", "skip"] = "raise", progress: Progress = quiet
    ) -> Encoded:
        """Compute the features of pictures. Pictures are rotated according to their EXIF data, transparency becomes
        white, and colours are converted to the network's channels.

        All cores read and decode pictures, a few batches ahead of the network, so memory does not grow with the number
        of pictures.

        Args:
            pictures: N pictures.
            broken: "raise" an error for a picture that cannot be read or decoded, or "skip" it.
            progress: shows progress.

        Raises:
            InputError: there are no pictures, or one cannot be read or decoded.
        """
        sequence = hasattr(pictures, "__getitem__") and not isinstance(pictures, (str, bytes, Mapping))
        if not sequence or not len(pictures):
            raise InputError(f"pictures must be a list of at least one file, picture or array, not {pictures!r:.60}")
        if broken not in ("raise", "skip"):
            raise InputError(f"broken must be raise or skip, not {broken!r}")
        problems, parts, size = dict[int, str](), list[Tensor](), self.look.size

        def load(batch: range) -> Tensor:
            squares = []
            for index in batch:
                try:
                    squares.append(torch.as_tensor(self._square(_read(pictures[index], index, size))))
                except InputError as error:
                    if broken == "raise":
                        raise InputError(f"{error}; or skip such files: broken=skip") from error
                    problems[index] = str(error)
            return torch.stack(squares) if squares else torch.empty(0)

        whole = dataclasses.replace(self.look, crop=1.0)  # the squares are cropped
        with progress.track("encoding pictures", len(pictures)) as advance:
            for batch, part in features_of(self.network, whole, self.device, len(pictures), load):
                parts += [part] if len(part) else []
                advance(len(batch))
        kept = torch.tensor([index for index in range(len(pictures)) if index not in problems], dtype=torch.int64)
        features = torch.cat(parts) if parts else torch.empty(0, self.feature_size)
        return Encoded(features, kept, dict(sorted(problems.items())))

    def encode_names(
        self, names: Sequence[str], prompts: Sequence[str] = PROMPTS, *, progress: Progress = quiet
    ) -> Tensor:
        """Compute the features of class names: the mean over the prompts of the unit features of the texts, divided by
        its norm.

        Args:
            names: K class names.
            prompts: templates, in which {} stands for the name.
            progress: shows progress.

        Returns:
            (K, D) float32 unit features on the CPU.

        Raises:
            InputError: the network has no text tower, or see `texts_of`.
        """
        texts = self._towers.encode_texts(texts_of(names, prompts), progress)
        return unit_rows(texts.view(len(names), len(prompts), -1).mean(dim=1))

    @property
    def _towers(self) -> TwoTowers:
        if not isinstance(self.network, TwoTowers):
            raise InputError(
                f"{self.name} has no text tower, so it cannot compute the features of class names; give text features "
                f"of the same network, or a network of open_clip (backbone={OPEN_CLIP}NAME)"
            )
        return self.network


def _central_square(picture: Image.Image, size: int) -> NDArray[np.uint8]:
    return np.array(squared(picture, size, "crop")).transpose(2, 0, 1)


def _read(picture: Picture, index: int, size: int) -> Image.Image:
    """Open a picture as upright RGB.

    Raises:
        InputError: the picture cannot be read or decoded; the message names its file or number.
    """
    name = f"picture {index}"
    stored: Any = picture
    if isinstance(picture, (str, Path)):
        name = os.fspath(picture)
        stored = read_bytes(name)
    elif isinstance(picture, np.ndarray):
        shaped = picture.size and picture.ndim in (2, 3) and picture.shape[2:] in ((), (1,), (3,), (4,))
        if picture.dtype not in (np.uint8, np.uint16) or not shaped:
            raise InputError(
                f"{name}: arrays must be uint8 or uint16 of shape (H, W), (H, W, 3) or (H, W, 4), "
                f"not {picture.dtype} of shape {picture.shape}"
            )
        levels = (picture >> 8 if picture.dtype == np.uint16 else picture).astype(np.uint8, copy=False)
        stored = levels[:, :, 0] if levels.shape[2:] == (1,) else levels
    elif not isinstance(picture, Image.Image):
        raise InputError(f"{name}: must be a file, a Pillow image or an array, not {type(picture).__name__}")
    return open_picture(stored, name, least=size, upright=True)


def _of_checkpoint(path: Path) -> tuple[nn.Module, Look, str]:
    """The network of a checkpoint, its input format and its name."""
    if not path.is_file():
        raise InputError(
            f"{path}: no such checkpoint; give a file, {TIMM}NAME for a network of timm, or {OPEN_CLIP}NAME"
        )
    if path.suffix in TORCH or path.suffix == ".npz":
        raise InputError(
            f"{path}: weights of another program; convert them with transduce import checkpoint {quote(str(path))} "
            "backbone=NAME benchmark=NAME"
        )
    network = load_backbone(path)
    channels, size, about = (getattr(network, key) for key in ("channels", "size", "about"))
    return network, Look(channels, size, about["mean"], about["std"]), path.name
