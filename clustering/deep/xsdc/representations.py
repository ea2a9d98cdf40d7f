"""Networks that compute the features of XSDC: built-in networks by name, or a user's module."""

import copy
import math
from collections.abc import Callable
from typing import Any

from torch import nn

from clustering.deep.xsdc.kernel_networks import OfRows, gradient_cells, gradient_kernel_network, lenet5_kernel_network
from clustering.deep.xsdc.vector_networks import KernelMap, LinearMap, Perceptron
from clustering.foundation.errors import InputError

_GREY = "for pictures of your own set colour=grey, or choose another representation"
_PARTS = ("begin", "optimizer", "usual_step")


def network_of(representation: Any, columns: int, features: int) -> Any:
    """A `clustering.deep.xsdc.vector_networks.Network` for rows (n, columns): a new built-in network, or a copy of the
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
                "clustering.deep.xsdc.vector_networks.Network"
            )
        return copy.deepcopy(representation)
    kinds: dict[str, Callable[[], nn.Module]] = {
        "linear": lambda: LinearMap(columns, features),
        "kernel": lambda: KernelMap(columns, features),
        "perceptron": lambda: Perceptron(columns, features=features),
        "ckn_gm": lambda: _ckn_gm(columns, features),
        "lenet5": lambda: _lenet5(columns, features),
    }
    if not isinstance(representation, str) or representation not in kinds:
        raise InputError(f"XSDC: representation must be one of {', '.join(kinds)}, or a module, not {representation!r}")
    return kinds[representation]()


def side_of(pixels: int, subject: str, remedy: str) -> int:
    """Height and width of a square image with this number of grey values.

    Raises:
        InputError: the number is not a square. The message starts with `subject`, which requires such images, and
            ends with `remedy`, what the user can do.
    """
    side = math.isqrt(pixels)
    if side**2 != pixels:
        raise InputError(
            f"XSDC: {subject} square grey pictures, but {pixels} columns are not a square number; {remedy}"
        )
    return side


def _lenet5(columns: int, features: int) -> OfRows:
    side = side_of(columns, "lenet5 requires", _GREY)
    return OfRows(lenet5_kernel_network(features, side=side), side)


def _ckn_gm(columns: int, features: int) -> OfRows:
    side = math.isqrt(columns // 3)
    if 3 * side**2 != columns or side < 6:
        raise InputError(
            f"XSDC: ckn_gm requires square colour pictures of 6 x 6 or more, but {columns} columns are not 3 S^2 with "
            "S >= 6; choose another representation"
        )
    filters, left = divmod(features, gradient_cells(side))
    if left or not filters:
        raise InputError(
            f"XSDC: for ckn_gm with pictures of {side} x {side}, n_features must be a multiple of "
            f"{gradient_cells(side)}, not {features}; set n_features={32 * gradient_cells(side)}, for example"
        )
    return OfRows(gradient_kernel_network(filters), side, colour=True)
