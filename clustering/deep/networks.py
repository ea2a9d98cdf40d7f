"""Small networks for images and rows that are trained from scratch, and the linear head on top."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

Prepare = Callable[[Tensor], Tensor]
"""Conversion of stored inputs to inputs of the network, for example by scaling and cropping of pixels."""
_AT_ONCE = 1000  # points whose outputs are computed at a time


def vgg4(channels: int, *, widths: Sequence[int] = (64, 128, 256, 512), kernel: int = 5) -> nn.Sequential:
    """Four convolutions with batch norm and ReLU, with pooling by two in between (Ji et al. 2019).

    Maps (N, C, H, W) to (N, D), D = widths[-1] (H // 8) (W // 8). This is the VGG4 of Zhang and Boykov as far as they
    describe it: 24 x 24 images give 4608 features.
    """
    layers: list[nn.Module] = []
    for before, after in zip((channels, *widths), widths, strict=False):
        layers += [nn.Conv2d(before, after, kernel, padding=kernel // 2, bias=False), nn.BatchNorm2d(after), nn.ReLU()]
        layers.append(nn.MaxPool2d(2))
    return nn.Sequential(*layers[:-1], nn.Flatten())


def small_cnn(channels: int) -> nn.Sequential:
    """A smaller `vgg4` with 3 x 3 convolutions of widths 16, 32, 64 and 128, at a thirtieth of the cost."""
    return vgg4(channels, widths=(16, 32, 64, 128), kernel=3)


def mlp(values: int, *, widths: Sequence[int] = (256, 256)) -> nn.Sequential:
    """Linear layers with batch norm and ReLU: (N, values) to (N, widths[-1]). Hu et al. (2017) use two of 1200."""
    layers: list[nn.Module] = []
    for before, after in zip((values, *widths), widths, strict=False):
        layers += [nn.Linear(before, after, bias=False), nn.BatchNorm1d(after), nn.ReLU()]
    return nn.Sequential(*layers)


class Waves(nn.Module):
    """cos(x W + b) of rows x: random Fourier features (Rahimi and Recht 2007), (N, values) to (N, count).

    Args:
        values: number of values per row.
        count: number of features.
        fastest: largest norm of a column of W, in radians per unit; the norms are evenly distributed between 0 and it.
    """

    directions: Tensor
    phases: Tensor

    def __init__(self, values: int, count: int, fastest: float) -> None:
        super().__init__()
        directions = nn.functional.normalize(torch.randn(values, count), dim=0)
        self.register_buffer("directions", fastest * torch.rand(count) * directions)
        self.register_buffer("phases", 2 * torch.pi * torch.rand(count))

    def forward(self, rows: Tensor) -> Tensor:
        return torch.cos(rows @ self.directions + self.phases)


def waves(values: int) -> nn.Sequential:
    """`mlp` on 512 random Fourier features of up to 60 radians per unit: (N, values) to (N, 256).

    Close points have unrelated features, so that without views the network may assign them to different clusters.
    """
    return nn.Sequential(Waves(values, 512, 60.0), *mlp(512))


class Classifier(nn.Module):
    """Log-softmax of a linear head on a backbone.

    Args:
        backbone: computes features (N, D).
        example: (n, …) input from which D is determined.
        n_clusters: K.
        generator: random generator of the head's weights, which are small so that initial predictions are uncertain.
    """

    def __init__(self, backbone: nn.Module, example: Tensor, n_clusters: int, generator: torch.Generator) -> None:
        super().__init__()
        training = backbone.training
        with torch.no_grad():
            features = backbone.eval()(example).shape[1]
        self.backbone, self.head = backbone.train(training), nn.Linear(features, n_clusters)
        with torch.no_grad():
            self.head.weight.normal_(0, 0.01, generator=generator)
            self.head.bias.zero_()

    def forward(self, inputs: Tensor) -> Tensor:
        return torch.log_softmax(self.head(self.backbone(inputs)).float(), dim=-1)


def outputs(network: nn.Module, points: Tensor, prepare: Prepare, device: torch.device) -> Tensor:
    """(N, *) outputs of a network for unmodified points, on the CPU: log-probabilities of a classifier, features of a
    backbone. The network is left on the device, in evaluation mode."""
    network.to(device).eval()
    with torch.no_grad():
        return torch.cat([network(prepare(part.to(device))).float().cpu() for part in torch.split(points, _AT_ONCE)])
