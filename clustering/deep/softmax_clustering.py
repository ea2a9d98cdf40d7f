"""Clustering of fixed features by any of the objectives of `clustering.deep`, for comparison."""

import dataclasses
from typing import Annotated, Any, cast

from numpy.typing import ArrayLike

from clustering.deep import OBJECTIVES
from clustering.deep.linear_clustering import LinearSoftmax
from clustering.deep.linear_heads import FASTEST, Relabel
from clustering.deep.objectives import Objective
from clustering.estimator_input import Device
from clustering.foundation.errors import InputError
from clustering.foundation.parameters import Above, AtLeast, UpTo, Within

LABELS_ALONE = ("labelled", "labelled_reverse", "labelled_absolute")
"""Objectives that learn nothing from points whose class is not known."""


def check_objective(objective: str, *, known: bool, views: int) -> None:
    """That there is what an objective learns from.

    Args:
        known: whether there are known labels.
        views: changed copies of each point.

    Raises:
        InputError: there is not.
    """
    if objective in LABELS_ALONE and not known:
        raise InputError(f"objective {objective!r} learns from known labels alone; give some, or take another")
    if objective == "iic" and not views:
        raise InputError(
            "objective 'iic' compares views of a point, which a network alone is given: train one with at least one "
            "view, or take another"
        )


class SoftmaxClustering(LinearSoftmax):
    """A linear softmax fitted by the objective of a discriminative method, with the settings of its paper.

    Parameters
    ----------
    n_clusters : K.
    objective : "sela", "migd", "miadm", "imsat", "iic", "labelled", "labelled_reverse", "labelled_absolute" or
        "entropy", see `clustering.deep.OBJECTIVES`; "iic" is for networks alone, which see several views of a point.
    order : of Renyi's entropy in "migd", 1 is Shannon's; large orders are near -log max p. Others have no order.
    smoothing : share of a known label that is spread over all classes, in "labelled" and "labelled_reverse"; None is
        none. Others smooth none.
    margin_weight, prior, pseudo_labels, init_norm, n_init, max_iter, batch_size, learning_rate, device,
    random_state : as of `EntropyClustering`. MIADM as it was published makes pseudo-labels once an epoch.

    What is learned: see `LinearSoftmax`.
    """

    def __init__(
        self,
        n_clusters: Annotated[int, AtLeast(1)] = 8,
        *,
        objective: str = "sela",
        order: Annotated[float, Above(0)] = 1.0,
        smoothing: Annotated[float, Within(0, 1)] | None = None,
        margin_weight: Annotated[float, AtLeast(0)] = 1e-3,
        prior: str | ArrayLike = "balanced",
        pseudo_labels: Relabel = "batch",
        init_norm: Annotated[float, Above(0)] = 0.1,
        n_init: Annotated[int, AtLeast(1)] = 8,
        max_iter: Annotated[int, AtLeast(1)] = 300,
        batch_size: Annotated[int, AtLeast(2)] = 500,
        learning_rate: Annotated[float, Above(0), UpTo(FASTEST)] = 0.3,
        device: Device = "cpu",
        random_state: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.objective = objective
        self.order = order
        self.smoothing = smoothing
        self.margin_weight = margin_weight
        self.prior = prior
        self.pseudo_labels = pseudo_labels
        self.init_norm = init_norm
        self.n_init = n_init
        self.max_iter = max_iter
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.device = device
        self.random_state = random_state

    def _check_learns(self, known: bool) -> None:
        check_objective(self.objective, known=known, views=0)

    def network_objective(self) -> Objective:
        """See `LinearSoftmax`."""
        kind = OBJECTIVES.load(self.objective)
        if not (isinstance(kind, type) and dataclasses.is_dataclass(kind)):
            raise InputError(f"objective {self.objective!r} must name a dataclass, as those of clustering.deep are")
        found = kind()
        given = {} if self.order == 1 else {"order": self.order}
        given |= {} if self.smoothing is None else {"smoothing": self.smoothing}
        for name, value in given.items():
            if not hasattr(found, name):
                raise InputError(f"{name}={value:g}: objective {self.objective!r} has no {name}; leave it out")
        return cast(Objective, dataclasses.replace(found, **given))
