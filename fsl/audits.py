"""Audit metrics: known ways to measure too much, kept apart from accuracy so that they are never taken for it."""

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor


def best_permutation_accuracy(predicted: Tensor, labels: Tensor, way: int, query_mask: Tensor | None = None) -> Tensor:
    """(B,) accuracy after relabelling each task's predictions in the way that scores highest.

    The accuracies of the thesis' LaplacianShot tables (4.1, 4.2, 4.4) were scored so; support labels fix what a
    class is, so only the plain accuracy is one. Never below the plain accuracy.

    Args:
        predicted: (B, Q) predicted class, 0..way-1.
        labels: (B, Q) true class.
        way: number of classes.
        query_mask: (B, Q) bool, False for padded queries.
    """
    mask = torch.ones_like(labels) if query_mask is None else query_mask.long()
    pairs = (torch.nn.functional.one_hot(predicted * way + labels, way * way) * mask[..., None]).sum(dim=1)
    confusions = pairs.reshape(-1, way, way).numpy()
    matched = [confusion[linear_sum_assignment(-confusion)].sum() for confusion in confusions]
    return torch.from_numpy(np.array(matched)).double() / mask.sum(dim=1)
