"""Settings of `network=`, and the points of a data set as inputs of the network."""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor, nn

from clustering.deep import NETWORKS
from clustering.deep.settings import Augment, DeepTraining
from clustering.foundation.errors import InputError
from clustering.foundation.parameters import AtLeast, validate
from fsl.backbones import create_backbone
from fsl.benchmarks.augmentation import Augmentation

if TYPE_CHECKING:
    from clustering.datasets.dataset import Dataset

OF_ROWS = ("mlp", "waves")  # networks whose input is rows of numbers; the others take pictures
LARGEST = 256  # largest side, in pixels, that is tried when searching for one that fits


@dataclass(frozen=True)
class DeepNetwork:
    """A network and its training.

    Attributes:
        architecture: a name in `clustering.deep.NETWORKS`, a backbone of this project or of timm, or "module:function".
            The function takes the number of channels (or of values per row) and returns a module that maps inputs to
            features (n, D).
        inner: side of the central square of a picture that is cropped as input, in pixels; null: the whole picture.
        epochs, batch_size, learning_rate, weight_decay, views: see `clustering.deep.settings.DeepTraining`.
        agreement: weight of the symmetric divergence between the predictions of views, for objectives that have it.
        rotation, translation, scale, shear, flip, brightness, contrast, saturation: augmentation of pictures, see
            `fsl.benchmarks.augmentation.Augmentation`.
        noise: standard deviation of the normal noise added to rows, relative to the standard deviation of all values.
    """

    architecture: str = "small_cnn"
    inner: Annotated[int, AtLeast(4)] | None = None
    epochs: int = 10
    batch_size: int = 250
    learning_rate: float = 1e-3
    weight_decay: float = 0.0
    views: int = 1
    agreement: Annotated[float, AtLeast(0)] = 1.0
    rotation: float = 0.0
    translation: float = 0.0
    scale: float = 0.0
    shear: float = 0.0
    flip: bool = False
    brightness: float = 0.0
    contrast: float = 0.0
    saturation: float = 0.0
    noise: Annotated[float, AtLeast(0)] = 0.0

    def __post_init__(self) -> None:
        validate(self)
        self.part(DeepTraining)
        self.part(Augmentation)

    def part(self, kind: Any, **more: Any) -> Any:
        """Return an instance of a dataclass, `DeepTraining` or `Augmentation`, with these settings; checks them."""
        names = {field.name for field in dataclasses.fields(kind)} & vars(self).keys()
        return kind(**{name: getattr(self, name) for name in names}, **more)

    def backbone(self, channels: int, size: int) -> Callable[[], nn.Module]:
        """Return a function that creates the network without its head.

        Args:
            channels: channels of the pictures, or values per row.
            size: side of the pictures in pixels; 0 for rows.
        """
        name = self.architecture
        build = NETWORKS.load(name) if name in NETWORKS.table or ":" in name else None
        remedy = "it must be a function of the number of channels that returns a torch.nn.Module"

        def make() -> nn.Module:
            try:
                network: Any = build(channels) if build else create_backbone(name, channels=channels, size=size)
            except InputError:
                raise
            except (Exception, SystemExit) as error:  # a user's function may raise anything
                if build is None:
                    raise
                raise InputError(f"network.architecture={name}: {type(error).__name__}: {error}; {remedy}") from error
            if not isinstance(network, nn.Module):
                raise InputError(f"network.architecture={name}: returned a {type(network).__name__}; {remedy}")
            return cast(nn.Module, network.to(memory_format=torch.channels_last))  # type: ignore[call-overload]

        return make


@dataclass(frozen=True)
class Shaken:
    """Add normal noise to rows. `repr` is part of a training's identity."""

    deviation: float

    def __call__(self, rows: Tensor, generator: torch.Generator) -> Tensor:
        return rows + self.deviation * torch.randn(rows.shape, generator=generator).to(rows)


class Inputs(NamedTuple):
    """The inputs of a network."""

    points: Tensor  # (N, C, H, W) uint8 pictures, or (N, D) float32 rows
    channels: int  # C, or D
    size: int  # H of images after the crop; 0 for rows
    augment: Augment  # function that makes random views
    prepare: Callable[[Tensor], Tensor]  # function that scales and crops


def inputs_of(network: DeepNetwork, data: "Dataset") -> Inputs:
    """Return the points of a data set as inputs of a network; raises InputError for rows and a network on pictures."""
    values = data.values
    if network.architecture in OF_ROWS:
        rows = torch.from_numpy(np.asarray(values, np.float32))
        mean, deviation = float(rows.double().mean()), float(rows.double().std()) or 1.0
        augment = Shaken(network.noise * deviation)
        return Inputs(rows, rows.shape[1], 0, augment, lambda part: (part.float() - mean) / deviation)
    if data.picture is None:
        raise InputError(
            f"network={network.architecture} is for pictures, and these points are rows of {values.shape[1]} numbers; "
            "choose network=mlp or network=waves, or leave network out"
        )
    height, width = data.picture
    low, high = float(values.min()), float(values.max())
    scaled = (values - low) * (255 / ((high - low) or 1))
    points = torch.from_numpy(scaled.round().astype(np.uint8)).view(-1, data.channels, height, width)
    size = min(height, width) if network.inner is None else network.inner
    if size > min(height, width):
        raise InputError(f"network.inner={size}: the pictures are of {height} x {width} pixels; set inner to less")
    top, left = (height - size) // 2, (width - size) // 2
    window = (..., slice(top, top + size), slice(left, left + size))
    seen = points[window].double()
    mean, deviation = float(seen.mean()), float(seen.std()) or 1.0

    def prepare(part: Tensor) -> Tensor:
        return ((part[window].float() - mean) / deviation).contiguous(memory_format=torch.channels_last)

    return Inputs(points, data.channels, size, network.part(Augmentation), prepare)


def check_fits(network: DeepNetwork, inputs: Inputs) -> None:
    """Raise InputError, with the smallest side that fits, unless the network accepts the points."""

    def fits(size: int) -> bool:
        example = torch.zeros(2, inputs.channels, size, size) if size else torch.zeros(2, inputs.channels)
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            backbone = network.backbone(inputs.channels, size)().eval()
            try:
                return bool(backbone(example).numel())
            except RuntimeError:  # the feature maps of some layer are empty
                if size:
                    return False
                raise

    if not fits(inputs.size):
        needed = next(filter(fits, range(inputs.size + 1, LARGEST + 1)), None)
        remedy = f"it needs {needed} x {needed} or more: set inner or size so" if needed else "choose another network"
        taken = f"network={network.architecture} does not take pictures of {inputs.size} x {inputs.size} pixels"
        raise InputError(f"{taken}; {remedy}")
