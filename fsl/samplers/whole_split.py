"""A single task with all samples of a split: the protocol for iNat in the thesis (section 4.3)."""

from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
import torch
from torch import Tensor

from clustering.foundation.errors import InputError
from clustering.foundation.parameters import Above, Validated, Within
from clustering.foundation.streams import stream
from fsl.samplers.pool import Pool
from fsl.tasks import Tasks, TaskSource


@dataclass(frozen=True)
class WholeSplit(Validated):
    """One task with all classes and samples of the split: a fraction of each class is support, the rest are queries.

    A class of n samples has max(1, floor(n * support_share)) support samples. They are chosen at random, or are the
    first of each class: `benchmark=inat` lists the support of its authors' division first.

    Attributes:
        support_share: fraction of each class's samples that are support, between 0 and 1; 0.2 in the papers.
        support: "random", or "first" in the order of the benchmark, independent of the seed.
    """

    support_share: Annotated[float, Above(0), Within(0, 1)] = 0.2
    support: Literal["random", "first"] = "random"

    @property
    def label(self) -> str:
        return f"whole split {self.support_share:g}{' first' if self.support == 'first' else ''}"

    def tasks(self, labels: Tensor, seed: int = 0, class_names: tuple[str, ...] = ()) -> TaskSource:
        """The one task over the samples of a split.

        Raises:
            InputError: the split has one class, or a class has no query.
        """
        pool = Pool.of(labels, class_names)
        if len(pool.counts) < 2:
            raise InputError("the split has only one class, but a task needs two; use another split")
        # Round first, so that a fifth of 5 samples is 1 despite floating-point errors.
        shots = np.maximum(np.floor(np.round(pool.counts * self.support_share, 9)).astype(np.int64), 1)
        pool.require(2, 2, f"support_share={self.support_share:g}", "remove such classes from the benchmark")
        if (shots >= pool.counts).any():
            name = pool.names[int(np.argmax(shots >= pool.counts))]
            raise InputError(
                f"support_share={self.support_share:g} leaves class {name!r} without queries; lower support_share"
            )

        def whole(index: int) -> Tasks:
            random = stream(seed, "whole split task", repr(float(self.support_share)))
            keys = random.random(len(labels)) if self.support == "random" else np.arange(len(labels))
            order = np.lexsort((keys, labels.numpy()))  # class by class
            place = np.arange(len(order)) - np.repeat(pool.counts.cumsum() - pool.counts, pool.counts)
            is_support = place < np.repeat(shots, pool.counts)
            support, query = order[is_support], random.permutation(order[~is_support])
            return Tasks(
                support=torch.from_numpy(support)[None],
                support_labels=labels[support][None],
                query=torch.from_numpy(query)[None],
                query_labels=labels[query][None],
                classes=torch.arange(len(pool.counts))[None],
            )

        return TaskSource(whole, limit=1)
