"""Near copies among pictures: one picture saved again, resized, brighter, or without colour."""

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components
from sklearn.neighbors import radius_neighbors_graph
from torch.nn.functional import adaptive_avg_pool2d

from clustering.datasets.dataset import Dataset

SIDE = 16
ALIKE = 0.98  # of 400 photographs, no two reached .89; saved at JPEG quality 30, 15 % brighter or in grey, all .99


def near_copies(data: Dataset) -> NDArray[np.int64]:
    """(N,) index of the first near copy of each picture: its own, if no earlier picture is one.

    Near copies are pictures whose 16 x 16 grey versions have a correlation of .98 or more, and, since this goes on from
    copy to copy, those that a chain of such pairs joins. Crops of more than a few pixels and mirror images are none.

    Args:
        data: pictures, with their size and number of channels.
    """
    height, width = data.picture or (1, data.values.shape[1])
    pixels = torch.as_tensor(data.values).reshape(-1, data.channels, height, width)
    small = adaptive_avg_pool2d(pixels.mean(dim=1), SIDE).flatten(1).double()
    small -= small.mean(dim=1, keepdim=True)
    lengths = small.norm(dim=1, keepdim=True)
    small = torch.where(lengths > SIDE / 255, small / lengths, 0)  # pictures of one colour are copies of each other
    rows, place = np.unique(small.numpy().round(6), axis=0, return_inverse=True)  # or copies of one make N x N pairs
    graph = radius_neighbors_graph(rows, np.sqrt(2 - 2 * ALIKE))
    group = connected_components(graph, directed=False)[1][place.ravel()]
    _, first, members = np.unique(group, return_index=True, return_inverse=True)
    return first[members.ravel()]
