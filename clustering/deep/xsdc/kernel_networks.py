"""Convolutional kernel networks: every layer is the Nystrom approximation of a kernel between patches (Mairal 2016).

    phi(x) = kappa(x, V) (kappa(V, V) + 0.001 I)^(-1/2)

The filters V are landmarks on the unit sphere. They are initialised with patches of the data, so that an untrained
network already gives useful features, and are trained by gradient steps along the sphere.
"""

import math
from collections.abc import Callable, Iterable
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from clustering.foundation.errors import InputError

_IMAGES = 256
"""Number of images from which the initial filters are drawn, layer by layer."""


def inverse_square_root(gram: Tensor, ridge: float = 1e-3, iterations: int = 20) -> Tensor:
    """(…, p, p) (gram + ridge I)^(-1/2) by coupled Newton iterations. Unlike the gradients of an eigendecomposition,
    their gradients stay finite if eigenvalues are equal.

    Eigenvalues down to about 1e-6 of the largest converge in 20 iterations: each iteration multiplies a small
    eigenvalue by 9/4.

    Args:
        gram: (…, p, p) symmetric, positive semi-definite.
        ridge: > 0.
        iterations: number of Newton iterations.
    """
    identity = torch.eye(gram.shape[-1], dtype=gram.dtype, device=gram.device)
    system = gram + ridge * identity
    size = torch.linalg.matrix_norm(system)[..., None, None]
    root, inverse = system / size, identity
    for _ in range(iterations):
        correction = (3 * identity - inverse @ root) / 2
        root, inverse = root @ correction, correction @ inverse
    result: Tensor = inverse / size.sqrt()
    return result


class KernelLayer(nn.Module):
    """Features (B, p, H', W') of the patches of images (B, C, H, W).

    "sphere": kappa(x, z) = exp((<x / |x|, z> - 1) / bandwidth^2), the Gaussian kernel between directions; features are
    multiplied by the norm of the patch. "linear": kappa(x, z) = <x, z>, and features are averaged over squares of
    `pool` x `pool` pixels; for a linear layer this is one convolution with larger filters.

    Attributes:
        filters: (p, C patch^2) V, rows of unit norm.
    """

    def __init__(
        self,
        channels: int,
        filters: int = 32,
        patch: int = 1,
        *,
        kernel: Literal["sphere", "linear"] = "sphere",
        padding: int = 0,
        bandwidth: float = 0.6,
        pool: int = 1,
        fixed: bool = False,
    ) -> None:
        """With `fixed`, V = I on patches of one pixel: `filters` equals `channels`, and nothing is trained."""
        super().__init__()
        self.pool = pool
        self.channels, self.patch, self.kernel, self.padding = channels, patch, kernel, padding
        self.bandwidth, self.fixed = bandwidth, fixed
        size = channels * patch**2
        begin = torch.eye(size) if fixed else torch.eye(filters, size)
        self.filters = nn.Parameter(begin, requires_grad=not fixed)

    def forward(self, images: Tensor) -> Tensor:
        gram = self.filters @ self.filters.T
        if self.kernel == "sphere":
            gram = ((gram - 1) / self.bandwidth**2).exp()
        mixing = inverse_square_root(gram)
        if self.kernel == "linear":
            filters = (mixing @ self.filters).view(-1, self.channels, self.patch, self.patch)
            if self.pool > 1:
                filters = functional.avg_pool2d(functional.pad(filters, [self.pool - 1] * 4), self.pool, stride=1)
            return functional.conv2d(images, filters, padding=self.padding, stride=self.pool)
        lengths = self._lengths(images)
        products = images
        if not self.fixed:
            filters = self.filters.view(-1, self.channels, self.patch, self.patch)
            products = functional.conv2d(images, filters, padding=self.padding)
        sharpness = self.bandwidth**-2
        cosines = torch.addcmul(images.new_tensor(-sharpness), products, sharpness / lengths)
        similar = cosines.exp() * lengths
        return functional.conv2d(similar, mixing[:, :, None, None])

    def begin(self, images: Tensor, generator: np.random.Generator) -> None:
        """Initialise the filters with patches of images (B, C, H, W)."""
        if self.fixed:
            return
        patches = functional.unfold(images, self.patch, padding=self.padding).mT.flatten(0, 1)
        lengths = patches.norm(dim=1)
        present = (lengths > 1e-6).nonzero()[:, 0]
        count = len(self.filters)
        if not len(present):
            raise InputError(
                f"all image patches are zero, so {count} filters cannot be drawn from them; rescale the images"
            )
        drawn = present[torch.from_numpy(generator.choice(len(present), count, replace=len(present) < count))]
        with torch.no_grad():
            self.filters.copy_(patches[drawn] / lengths[drawn, None])

    def _lengths(self, images: Tensor) -> Tensor:
        """(B, 1, H', W') Euclidean norms of the patches, > 0."""
        squares = images.square().sum(1, keepdim=True)
        if self.patch > 1 or self.padding:
            squares = functional.conv2d(squares, squares.new_ones(1, 1, self.patch, self.patch), padding=self.padding)
        return squares.clamp_min(1e-10).sqrt()


class GaussianPooling(nn.Module):
    """Weighted means around every `factor`-th pixel, with weight exp(-d^2 / factor^2) along each axis and zero
    padding."""

    weights: Tensor

    def __init__(self, factor: int) -> None:
        super().__init__()
        self.factor = factor
        weights = torch.exp(-(torch.arange(-factor, factor + 1).float() ** 2) / factor**2)
        self.register_buffer("weights", weights / weights.sum(), persistent=False)

    def forward(self, images: Tensor) -> Tensor:
        first = math.ceil(self.factor / 2) - 1
        kernel = self.weights.to(images.dtype)
        channels = images.shape[1]
        for shape, padding in (((-1, 1), (self.factor, 0)), ((1, -1), (0, self.factor))):
            window = kernel.view(1, 1, *shape).expand(channels, -1, -1, -1)
            images = functional.conv2d(images, window, padding=padding, groups=channels)
        return images[:, :, first :: self.factor, first :: self.factor]


class KernelNetwork(nn.Sequential):
    """A sequence of kernel layers and pooling; computes features (B, D) of images (B, C, H, W)."""

    usual_step = 2.0**-6

    def forward(self, images: Tensor) -> Tensor:
        # Channels last halves the time of convolutions of few pixels and many channels.
        images = images.contiguous(memory_format=torch.channels_last)
        for layer in self:
            images = layer(images)
        return images.flatten(1)

    def begin(self, images: Tensor, generator: np.random.Generator) -> None:
        """Initialise the filters with patches of a random subset of the images, layer by layer."""
        drawn = generator.permutation(len(images))[:_IMAGES]
        with torch.no_grad():
            maps = images[torch.from_numpy(np.sort(drawn)).to(images.device)]
            for layer in self:
                if isinstance(layer, KernelLayer):
                    layer.begin(maps, generator)
                maps = layer(maps)

    def optimizer(self, step: float, decay: float = 0.0) -> torch.optim.Optimizer:
        """Gradient steps along the sphere; `decay` is ignored."""
        return SphereDescent([parameter for parameter in self.parameters() if parameter.requires_grad], step)


def lenet5_kernel_network(filters: int = 32, bandwidth: float = 0.6, side: int = 28) -> KernelNetwork:
    """The network of the paper for MNIST: images (B, 1, 28, 28), scaled as (x / 255 - 0.1307) / 0.3081; features
    (B, filters).

    Args:
        filters: number of filters of each layer.
        bandwidth: bandwidth of the kernels between directions.
        side: height and width of the images, at least 12; the patch of the fifth layer covers its whole input.
    """
    width, left = filters, (side // 2 - 4) // 2
    if left < 1:
        raise InputError(f"lenet5 needs pictures of 12 x 12 or more, not {side} x {side}; choose another network")
    return KernelNetwork(
        KernelLayer(1, width, 5, kernel="linear", padding=2, pool=2),
        KernelLayer(width, bandwidth=bandwidth, fixed=True),
        KernelLayer(width, width, 5, kernel="linear", pool=2),
        KernelLayer(width, bandwidth=bandwidth, fixed=True),
        KernelLayer(width, width, left, bandwidth=bandwidth),
        KernelLayer(width, width, 1, bandwidth=bandwidth),
    )


class OfRows(nn.Module):
    """A network for square images given as rows of pixels: grey images (n, side^2), or colour images (n, 3 side^2),
    channel by channel, of which the network receives the `gradient_map` of the green channel."""

    def __init__(self, network: KernelNetwork, side: int, *, colour: bool = False) -> None:
        super().__init__()
        self.network, self.side, self.colour = network, side, colour
        self.usual_step = network.usual_step

    def forward(self, rows: Tensor) -> Tensor:
        features: Tensor = self.network(self._images(rows))
        return features

    def begin(self, inputs: Tensor, generator: np.random.Generator) -> None:
        self.network.begin(self._images(inputs), generator)

    def optimizer(self, step: float, decay: float = 0.0) -> torch.optim.Optimizer:
        return self.network.optimizer(step, decay)

    def _images(self, rows: Tensor) -> Tensor:
        images = rows.view(-1, 3 if self.colour else 1, self.side, self.side)
        return gradient_map(images[:, 1]) if self.colour else images


def gradient_kernel_network(filters: int = 32, bandwidth: float = 0.6) -> KernelNetwork:
    """CKN-GM, the network of the paper for CIFAR-10: images (B, 2, 32, 32), the `gradient_map` of the green channel
    scaled to 0..1; features (B, 16 filters)."""
    network = KernelNetwork(
        KernelLayer(2, filters, bandwidth=bandwidth),
        GaussianPooling(2),
        KernelLayer(filters, filters, 2, bandwidth=bandwidth),
        GaussianPooling(4),
    )
    network.usual_step = 0.5
    return network


def gradient_cells(side: int) -> int:
    """Number of features per filter of the `gradient_kernel_network` for images of side x side pixels, side >= 6."""
    return len(range(1, (side + 1) // 2 - 1, 4)) ** 2


def gradient_map(images: Tensor) -> Tensor:
    """(B, 2, H, W) differences along both axes of grey images (B, H, W): central differences inside, one-sided
    differences at the border."""
    return torch.stack(torch.gradient(images, dim=(1, 2)), dim=1)


class SphereDescent(torch.optim.Optimizer):
    """Gradient steps of equal length for each row of the parameters, followed by a projection onto the unit sphere:
    w <- w - step g / |g|, w <- w / |w|.

    A step rotates a row by at most arcsin(step). Steps do not depend on the scale of the objective. Rows whose gradient
    is zero do not change.
    """

    def __init__(self, parameters: Iterable[Tensor], step: float) -> None:
        super().__init__(parameters, {"lr": step})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> Any:
        for group in self.param_groups:
            for rows in group["params"]:
                if rows.grad is not None:
                    # Divide by the largest entry first, since squares of small gradients would underflow.
                    slope = rows.grad / rows.grad.abs().amax(1, keepdim=True).clamp_min(torch.finfo(rows.dtype).tiny)
                    slope = functional.normalize(slope, dim=1)
                    rows.copy_(functional.normalize(rows - group["lr"] * slope, dim=1))
        return None
