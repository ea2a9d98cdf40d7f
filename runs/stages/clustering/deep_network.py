"""Settings of `network=`: the architecture, its training, and the augmentation of its views."""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, cast

import torch
from torch import Tensor, nn

from clustering.deep import NETWORKS
from clustering.deep.settings import DeepTraining
from clustering.foundation.errors import InputError
from clustering.foundation.parameters import AtLeast, validate
from fsl.backbones import create_backbone
from fsl.benchmarks.augmentation import Augmentation


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
        self.training(0.0)
        self.changes  # noqa: B018 - checks the values

    def training(self, margin_weight: float) -> DeepTraining:
        """Return the settings of the training."""
        return DeepTraining(
            epochs=self.epochs,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate,
            margin_weight=margin_weight,
            weight_decay=self.weight_decay,
            views=self.views,
        )

    @property
    def changes(self) -> Augmentation:
        """The augmentation of pictures."""
        names = {field.name for field in dataclasses.fields(Augmentation)} & vars(self).keys()
        return Augmentation(**{name: getattr(self, name) for name in names})

    def backbone(self, channels: int, size: int) -> Callable[[], nn.Module]:
        """Return a function that creates the network without its head.

        Args:
            channels: channels of the pictures, or values per row.
            size: side of the pictures in pixels; 0 for rows.

        Raises:
            InputError: the architecture is unknown.
        """
        is_own = self.architecture in NETWORKS.table or ":" in self.architecture
        build = NETWORKS.load(self.architecture) if is_own else None

        def make() -> nn.Module:
            if build is None:
                network: object = create_backbone(self.architecture, channels=channels, size=size)
            else:
                network = _made(build, self.architecture, channels)
            return cast(nn.Module, network.to(memory_format=torch.channels_last))  # type: ignore[attr-defined]

        return make


def _made(build: Any, architecture: str, channels: int) -> nn.Module:
    """Call a function that creates a network.

    Raises:
        InputError: the function fails, or does not return a network.
    """
    requirement = "it must be a function of the number of channels that returns a torch.nn.Module"
    try:
        network = build(channels)
    except InputError:
        raise
    except (Exception, SystemExit) as error:  # a user's function may raise anything
        raise InputError(
            f"network.architecture={architecture}: {type(error).__name__}: {error}; {requirement}"
        ) from error
    if not isinstance(network, nn.Module):
        raise InputError(f"network.architecture={architecture}: returned a {type(network).__name__}; {requirement}")
    return network


@dataclass(frozen=True)
class Shaken:
    """Add normal noise to rows. `repr` is part of a training's identity."""

    deviation: float

    def __call__(self, rows: Tensor, generator: torch.Generator) -> Tensor:
        return rows + self.deviation * torch.randn(rows.shape, generator=generator).to(rows)
