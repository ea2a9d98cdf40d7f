"""Networks that compute the features of XSDC: for points in vector form, for images, or a user's module.

In convolutional kernel networks every layer is the Nystrom approximation of a kernel between patches (Mairal 2016):

    phi(x) = kappa(x, V) (kappa(V, V) + 0.001 I)^(-1/2)

The filters V are landmarks on the unit sphere. They are initialised with patches of the data, so that an untrained
network already gives useful features, and are trained by gradient steps along the sphere.
"""

import copy
import math
from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Any, Literal, Protocol

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from clustering.foundation.errors import InputError

_IMAGES = 256
"""Number of images from which the initial filters are drawn, layer by layer."""


_BANDWIDTH = 0.6
"""Bandwidth of the kernels between directions."""

_POINTS = 1000
"""Number of points whose distances determine the bandwidth."""


_GREY = "for pictures of your own set colour=grey, or choose another representation"
_OTHER = "choose another representation"
_PARTS = ("begin", "optimizer", "usual_step")


class Network(Protocol):
    """A `torch.nn.Module` that computes features and defines its initialisation and its optimiser.

    Attributes:
        usual_step: default step size.
    """

    usual_step: float

    def begin(self, inputs: Tensor, generator: np.random.Generator) -> None:
        """Initialise the parameters from inputs (n, …)."""
        ...

    def optimizer(self, step: float, decay: float = 0.0) -> torch.optim.Optimizer:
        """The optimiser, with step size `step` and weight `decay` of the sum of squared parameters."""
        ...

    def __call__(self, inputs: Tensor) -> Tensor:
        """(n, D) features."""
        ...

    def __getattr__(self, name: str) -> Any: ...


def inverse_square_root(gram: Tensor) -> Tensor:
    """(…, p, p) (gram + 0.001 I)^(-1/2) of symmetric, positive semi-definite matrices (…, p, p), by coupled Newton
    iterations. Unlike the gradients of an eigendecomposition, their gradients stay finite if eigenvalues are equal.

    Eigenvalues down to about 1e-6 of the largest converge in 20 iterations: each iteration multiplies a small
    eigenvalue by 9/4.
    """
    identity = torch.eye(gram.shape[-1], dtype=gram.dtype, device=gram.device)
    system = gram + 1e-3 * identity
    size = torch.linalg.matrix_norm(system)[..., None, None]
    root, inverse = system / size, identity
    for _ in range(20):
        correction = (3 * identity - inverse @ root) / 2
        root, inverse = root @ correction, correction @ inverse
    result: Tensor = inverse / size.sqrt()
    return result


class KernelLayer(nn.Module):
    """Features (B, p, H', W') of the patches of images (B, C, H, W).

    "sphere": kappa(x, z) = exp((<x / |x|, z> - 1) / 0.6^2), the Gaussian kernel between directions; features are
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
        pool: int = 1,
        fixed: bool = False,
    ) -> None:
        """With `fixed`, V = I on patches of one pixel: `filters` equals `channels`, and nothing is trained."""
        super().__init__()
        self.pool = pool
        self.channels, self.patch, self.kernel, self.padding = channels, patch, kernel, padding
        self.fixed = fixed
        size = channels * patch**2
        begin = torch.eye(size) if fixed else torch.eye(filters, size)
        self.filters = nn.Parameter(begin, requires_grad=not fixed)

    def forward(self, images: Tensor) -> Tensor:
        gram = self.filters @ self.filters.T
        if self.kernel == "sphere":
            gram = ((gram - 1) / _BANDWIDTH**2).exp()
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
        sharpness = _BANDWIDTH**-2
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


class GreenGradients(nn.Module):
    """(B, 2, H, W) differences of the green channel of images (B, 3, H, W) along both axes: central differences inside,
    one-sided differences at the border."""

    def forward(self, images: Tensor) -> Tensor:
        gradients = torch.stack(torch.gradient(images[:, 1], dim=(1, 2)), dim=1)
        return gradients.contiguous(memory_format=torch.channels_last)


class KernelNetwork(nn.Sequential):
    """A sequence of kernel layers and pooling; computes features (B, D) of images (B, C, S, S), or of the same as rows
    (B, C S^2), channel by channel."""

    def __init__(self, *layers: nn.Module, channels: int, side: int, usual_step: float) -> None:
        super().__init__(*layers)
        self.shape, self.usual_step = (-1, channels, side, side), usual_step

    def forward(self, images: Tensor) -> Tensor:
        # Channels last halves the time of convolutions of few pixels and many channels.
        images = images.view(self.shape).contiguous(memory_format=torch.channels_last)
        for layer in self:
            images = layer(images)
        return images.flatten(1)

    def begin(self, inputs: Tensor, generator: np.random.Generator) -> None:
        """Initialise the filters with patches of a random subset of the images, layer by layer."""
        drawn = generator.permutation(len(inputs))[:_IMAGES]
        with torch.no_grad():
            maps = inputs[torch.from_numpy(np.sort(drawn)).to(inputs.device)].view(self.shape)
            for layer in self:
                if isinstance(layer, KernelLayer):
                    layer.begin(maps, generator)
                maps = layer(maps)

    def optimizer(self, step: float, decay: float = 0.0) -> torch.optim.Optimizer:
        """Gradient steps along the sphere; `decay` is ignored."""
        return SphereDescent([parameter for parameter in self.parameters() if parameter.requires_grad], step)


def lenet5_kernel_network(filters: int = 32, side: int = 28) -> KernelNetwork:
    """The network of the paper for MNIST: grey images, scaled as (x / 255 - 0.1307) / 0.3081; features (B, filters).

    Args:
        filters: number of filters of each layer.
        side: height and width of the images, at least 12; the patch of the fifth layer covers its whole input.
    """
    width, left = filters, (side // 2 - 4) // 2
    if left < 1:
        raise InputError(f"lenet5 needs pictures of 12 x 12 or more, not {side} x {side}; choose another network")
    return KernelNetwork(
        KernelLayer(1, width, 5, kernel="linear", padding=2, pool=2),
        KernelLayer(width, fixed=True),
        KernelLayer(width, width, 5, kernel="linear", pool=2),
        KernelLayer(width, fixed=True),
        KernelLayer(width, width, left),
        KernelLayer(width, width),
        channels=1,
        side=side,
        usual_step=2.0**-6,
    )


def gradient_kernel_network(features: int = 512, side: int = 32) -> KernelNetwork:
    """CKN-GM, the network of the paper for CIFAR-10: colour images; features (B, features), a multiple of 16 for images
    of 32 x 32.

    Args:
        features: number of features, that of the filters of each layer times the number of pooled pixels.
        side: height and width of the images, at least 6.
    """
    pixels = len(range(1, (side + 1) // 2 - 1, 4)) ** 2
    filters, left = divmod(features, pixels)
    if left or not filters:
        raise InputError(
            f"XSDC: for ckn_gm with pictures of {side} x {side}, n_features must be a multiple of {pixels}, not "
            f"{features}; set n_features={32 * pixels}, for example"
        )
    return KernelNetwork(
        GreenGradients(),
        KernelLayer(2, filters),
        GaussianPooling(2),
        KernelLayer(filters, filters, 2),
        GaussianPooling(4),
        channels=3,
        side=side,
        usual_step=0.5,
    )


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


class KernelMap(nn.Module):
    """Nystrom features of the Gaussian kernel: exp(-||x - v||^2 / (2 s^2)) for p landmarks v, multiplied by the inverse
    square root of their Gram matrix (the paper's network for MAGIC and Gisette, with 32 landmarks).

    As in the paper, the bandwidth s is the median distance between the first 1000 points.

    Attributes:
        landmarks: (p, d), initialised with points drawn at random.
        bandwidth: () s.
    """

    usual_step = 1.0
    bandwidth: Tensor

    def __init__(self, dimension: int, landmarks: int = 32) -> None:
        super().__init__()
        self.landmarks = nn.Parameter(torch.zeros(landmarks, dimension))
        self.register_buffer("bandwidth", torch.ones(()))

    def forward(self, points: Tensor) -> Tensor:
        return self._similarity(points) @ inverse_square_root(self._similarity(self.landmarks))

    def begin(self, inputs: Tensor, generator: np.random.Generator) -> None:
        points, count = len(inputs), len(self.landmarks)
        drawn = inputs[torch.from_numpy(generator.choice(points, count, replace=points < count)).to(inputs.device)]
        distances = torch.nn.functional.pdist(inputs[:_POINTS])
        typical = float(distances.median()) if len(distances) else 1.0
        with torch.no_grad():
            self.landmarks.copy_(drawn)
            self.bandwidth.fill_(typical if typical > 0 else 1.0)

    def optimizer(self, step: float, decay: float = 0.0) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=step, weight_decay=2 * decay)

    def _similarity(self, points: Tensor) -> Tensor:
        squared = points.square().sum(1, keepdim=True) + self.landmarks.square().sum(1)
        squared = (squared - 2 * points @ self.landmarks.T).clamp_min(0)
        return (squared / (-2 * self.bandwidth**2)).exp()


class LinearMap(nn.Module):
    """Projections x W^T on p directions; rows of W have unit norm and are trained by gradient steps along the
    sphere."""

    usual_step = 0.1

    def __init__(self, dimension: int, features: int) -> None:
        super().__init__()
        self.weights = nn.Parameter(torch.zeros(features, dimension))

    def forward(self, points: Tensor) -> Tensor:
        return points @ self.weights.T

    def begin(self, inputs: Tensor, generator: np.random.Generator) -> None:
        drawn = torch.from_numpy(generator.normal(size=self.weights.shape)).to(self.weights)
        with torch.no_grad():
            self.weights.copy_(nn.functional.normalize(drawn, dim=1))

    def optimizer(self, step: float, decay: float = 0.0) -> torch.optim.Optimizer:
        """Gradient steps along the sphere; `decay` is ignored."""
        return SphereDescent(self.parameters(), step)


class Perceptron(nn.Sequential):
    """Hidden layers with ReLU activations and a linear output layer; trained by Adam."""

    usual_step = 1e-3

    def __init__(self, dimension: int, hidden: tuple[int, ...] = (64,), features: int = 32) -> None:
        widths = (dimension, *hidden)
        layers = [layer for before, after in pairwise(widths) for layer in (nn.Linear(before, after), nn.ReLU())]
        super().__init__(*layers, nn.Linear(widths[-1], features))

    def begin(self, inputs: Tensor, generator: np.random.Generator) -> None:
        """Initialise weights by He's normal distribution, and biases with zero."""
        for layer in self:
            if isinstance(layer, nn.Linear):
                drawn = generator.normal(size=layer.weight.shape) * (2 / layer.in_features) ** 0.5
                with torch.no_grad():
                    layer.weight.copy_(torch.from_numpy(drawn))
                    layer.bias.zero_()

    def optimizer(self, step: float, decay: float = 0.0) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=step, weight_decay=2 * decay)


def network_of(representation: Any, columns: int, features: int) -> Any:
    """A `Network` for rows (n, columns): a new built-in network, or a copy of the
    user's module.

    Raises:
        InputError: the name is unknown, the module lacks parts of `Network`, or the network does not support these
            numbers of columns or features.
    """
    if isinstance(representation, nn.Module):
        missing = [part for part in _PARTS if not hasattr(representation, part)]
        if missing:
            raise InputError(
                f"XSDC: representation {type(representation).__name__} has no {', '.join(missing)}; see "
                "clustering.deep.xsdc.networks.Network"
            )
        return copy.deepcopy(representation)
    kinds: dict[str, Callable[[], nn.Module]] = {
        "linear": lambda: LinearMap(columns, features),
        "kernel": lambda: KernelMap(columns, features),
        "perceptron": lambda: Perceptron(columns, features=features),
        "ckn_gm": lambda: gradient_kernel_network(
            features, side=side_of(columns, "ckn_gm requires", _OTHER, colour=True)
        ),
        "lenet5": lambda: lenet5_kernel_network(features, side=side_of(columns, "lenet5 requires", _GREY)),
    }
    if not isinstance(representation, str) or representation not in kinds:
        raise InputError(f"XSDC: representation must be one of {', '.join(kinds)}, or a module, not {representation!r}")
    return kinds[representation]()


def side_of(columns: int, subject: str, remedy: str, *, colour: bool = False) -> int:
    """Height and width of a square image with this number of values.

    Raises:
        InputError: there is no such image. The message starts with `subject`, which requires such images, and ends with
            `remedy`, what the user can do.
    """
    channels, smallest = (3, 6) if colour else (1, 1)
    side = math.isqrt(columns // channels)
    if channels * side**2 != columns or side < smallest:
        kind = "colour pictures of 6 x 6 or more" if colour else "grey pictures"
        raise InputError(f"XSDC: {subject} square {kind}, but rows have {columns} columns; {remedy}")
    return side
