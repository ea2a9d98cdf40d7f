"""What `network=` says: an architecture that learns its features, how it is trained, and how views are made."""

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
from fsl.training.augmentation import Augmentation


@dataclass(frozen=True)
class DeepNetwork:
    """A network and its training.

    Attributes:
        architecture: of `clustering.deep.NETWORKS`, a backbone of this project or of timm, or "module:function", which
            is called with the number of channels, or of values a row, and gives a module, inputs to features (n, D).
        inner: side of the inner square of a picture that the network sees; null: all of it.
        epochs, batch_size, learning_rate, weight_decay, views: see `clustering.deep.settings.DeepTraining`.
        agreement: weight of the symmetric divergence between the predictions of views, in objectives that have it.
        rotation, translation, scale, shear, flip, brightness, contrast, saturation: of the views of pictures, see
            `fsl.training.augmentation.Augmentation`.
        noise: of the views of rows, normal, its standard deviation as a share of that of all values.
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
        """How it is trained."""
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
        """Of the views of pictures."""
        names = {field.name for field in dataclasses.fields(Augmentation)} & vars(self).keys()
        return Augmentation(**{name: getattr(self, name) for name in names})

    def backbone(self, channels: int, size: int) -> Callable[[], nn.Module]:
        """Makes the network, without head, for pictures of so many channels and such a side; for rows of so many values
        (`size` 0).

        Raises:
            InputError: no such network.
        """
        own = self.architecture in NETWORKS.table or ":" in self.architecture
        build = NETWORKS.load(self.architecture) if own else None

        def make() -> nn.Module:
            if build is None:
                made: object = create_backbone(self.architecture, channels=channels, size=size)
            else:
                made = _made(build, self.architecture, channels)
            return cast(nn.Module, made.to(memory_format=torch.channels_last))  # type: ignore[attr-defined]

        return make


def _made(build: Any, architecture: str, channels: int) -> nn.Module:
    """What a function of that name makes.

    Raises:
        InputError: it makes no network, or cannot be called so.
    """
    wanted = "it must be a function of the number of channels that gives a torch.nn.Module"
    try:
        made = build(channels)
    except InputError:
        raise
    except (Exception, SystemExit) as error:  # a function of one's own raises what it likes
        raise InputError(f"network.architecture={architecture}: {type(error).__name__}: {error}; {wanted}") from error
    if not isinstance(made, nn.Module):
        raise InputError(f"network.architecture={architecture}: gave a {type(made).__name__}; {wanted}")
    return made


@dataclass(frozen=True)
class Shaken:
    """Rows with normal noise; `repr` is part of a training's identity."""

    deviation: float

    def __call__(self, rows: Tensor, generator: torch.Generator) -> Tensor:
        return rows + self.deviation * torch.randn(rows.shape, generator=generator).to(rows)
