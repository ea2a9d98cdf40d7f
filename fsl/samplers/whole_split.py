"""One task of a whole split: the protocol of iNat in the thesis (section 4.3)."""

from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
import torch
from torch import Tensor

from clustering.foundation.errors import InputError
from clustering.foundation.parameters import Above, Within, validate
from clustering.foundation.streams import stream
from fsl.samplers.pool import Pool
from fsl.tasks import Tasks, TaskSource


@dataclass(frozen=True)
class WholeSplit:
    """All classes and all samples of the split in one task: of each class a share as support, the others as queries.

    A class of n samples has floor(n * support_share) support samples, but at least 1. Which ones is random, or
    they are the first of each class: so `benchmark=inat` lists what its authors' division has as support.

    Attributes:
        support_share: share of each class's samples that are support, between 0 and 1; a fifth in the papers.
        support: "random", or "first" in the order of the benchmark, whatever the seed.
    """

    support_share: Annotated[float, Above(0), Within(0, 1)] = 0.2
    support: Literal["random", "first"] = "random"

    def __post_init__(self) -> None:
        validate(self)

    @property
    def label(self) -> str:
        return f"whole split {self.support_share:g}{' first' if self.support == 'first' else ''}"

    def tasks(self, labels: Tensor, seed: int = 0, class_names: tuple[str, ...] = ()) -> TaskSource:
        """The one task over the samples of a split.

        Raises:
            InputError: a single class, or a class that is left without a query.
        """
        pool = Pool.of(labels, class_names)
        if len(pool.counts) < 2:
            raise InputError("the split has a single class, and a task needs two; take another split")
        # Rounded first: a fifth of 5 samples is 1, also where 5 * 0.2 is not exactly 1.
        shots = np.maximum(np.floor(np.round(pool.counts * self.support_share, 9)).astype(np.int64), 1)
        pool.require(2, 2, f"support_share={self.support_share:g}", "leave such classes out of the benchmark")
        if (shots >= pool.counts).any():
            name = pool.names[int(np.argmax(shots >= pool.counts))]
            raise InputError(
                f"support_share={self.support_share:g} leaves class {name!r} no query; lower support_share"
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
