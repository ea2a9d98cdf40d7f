"""Kernel layers patch by patch. Shares no line with what it judges."""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def power_of_minus_half(gram: Array) -> Array:
    values, vectors = np.linalg.eigh(gram)
    return np.asarray(vectors @ np.diag(values**-0.5) @ vectors.T)


def layer(image: Array, filters: Array, patch: int, padding: int, kernel: str, bandwidth: float) -> Array:
    """(p, H', W') of an image (C, H, W)."""
    image = np.pad(image, [(0, 0), (padding, padding), (padding, padding)])
    height, width = image.shape[1] - patch + 1, image.shape[2] - patch + 1

    def kappa(a: Array, b: Array) -> float:
        return float(a @ b) if kernel == "linear" else float(np.exp(-np.square(a - b).sum() / (2 * bandwidth**2)))

    gram = np.array([[kappa(a, b) for b in filters] for a in filters]) + 0.001 * np.eye(len(filters))
    mixing = power_of_minus_half(gram)
    found = np.empty((len(filters), height, width))
    for i in range(height):
        for j in range(width):
            x = image[:, i : i + patch, j : j + patch].ravel()
            length = 1.0 if kernel == "linear" else float(np.linalg.norm(x))
            direction = x / length if length else x
            found[:, i, j] = length * mixing @ np.array([kappa(direction, z) for z in filters])
    return found
