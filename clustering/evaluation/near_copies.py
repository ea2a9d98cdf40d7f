"""Near copies among pictures: one picture saved again, resized, brighter, or without colour."""

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components
from sklearn.neighbors import kneighbors_graph
from torch.nn.functional import adaptive_avg_pool2d

from clustering.datasets.dataset import Dataset

SIDE = 16
NEAREST = 20  # copies compared with each picture; all pairs of a folder of one scene would exceed the memory
ALIKE = 0.98  # of 400 photographs, no two reached .89; saved at JPEG quality 30, 15 % brighter or in grey, all .99


def near_copies(data: Dataset) -> NDArray[np.int64]:
    """(N,) index of the first near copy of each picture: its own, if no earlier picture is one.

    Near copies are pictures whose 16 x 16 grey versions have a correlation of .98 or more, and, since this goes on from
    copy to copy, those that a chain of such pairs joins. Pictures of one colour are copies if that is the same. Crops
    of more than a few pixels and mirror images are none.

    Args:
        data: pictures, with their size and number of channels.
    """
    height, width = data.picture or (1, data.values.shape[1])
    pixels = torch.as_tensor(data.values).reshape(-1, data.channels, height, width)
    small = adaptive_avg_pool2d(pixels.mean(dim=1), SIDE).flatten(1).double()
    small -= small.mean(dim=1, keepdim=True)
    lengths = small.norm(dim=1, keepdim=True)
    plain = lengths < SIDE / 255
    colours = torch.where(plain, 20 * pixels.mean(dim=(2, 3)), 0)  # beyond .2, the limit, from 3 of 255 levels on
    compared = torch.cat([torch.where(plain, 0, small / lengths), colours], dim=1).numpy().round(6)
    rows, place = np.unique(compared, axis=0, return_inverse=True)
    graph = kneighbors_graph(rows, min(NEAREST, len(rows)), mode="distance", include_self=True)
    graph.data = graph.data <= np.sqrt(2 - 2 * ALIKE)
    graph.eliminate_zeros()
    group = connected_components(graph, directed=False)[1][place.ravel()]
    _, first, members = np.unique(group, return_index=True, return_inverse=True)
    return first[members.ravel()]
