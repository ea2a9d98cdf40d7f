"""Clustering of fixed features by any objective of `clustering.deep`, for comparison."""

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
"""Objectives that learn only from labelled points."""


def check_objective(objective: str, *, known: bool, views: int) -> None:
    """Check that the data provides what an objective learns from.

    Args:
        objective: its name.
        known: whether there are labelled points.
        views: number of augmented copies of each point.

    Raises:
        InputError: the labels or views that the objective needs are missing.
    """
    if objective in LABELS_ALONE and not known:
        raise InputError(
            f"objective {objective!r} learns from known labels only; pass partial labels, or choose another objective"
        )
    if objective == "iic" and not views:
        raise InputError(
            "objective 'iic' compares augmented views of a point, which only networks receive: train a network "
            "with at least one view, or choose another objective"
        )


class SoftmaxClustering(LinearSoftmax):
    """A linear softmax fitted to the objective of a discriminative method, with the settings of its paper.

    Parameters
    ----------
    n_clusters : number of clusters K.
    objective : "sela", "migd", "miadm", "imsat", "iic", "labelled", "labelled_reverse", "labelled_absolute" or
        "entropy", see `clustering.deep.OBJECTIVES`; "iic" needs a network, since it compares several views of a point.
    order : order of the Renyi entropy in "migd"; 1 is the Shannon entropy, and large orders approach -log max p. Other
        objectives have no order.
    smoothing : label smoothing of "labelled" and "labelled_reverse", the share of a label that is spread over all
        classes; None smooths nothing. Other objectives have no smoothing.
    margin_weight, prior, pseudo_labels, init_norm, n_init, max_iter, batch_size, learning_rate, device, random_state :
        as in `clustering.deep.entropy_clustering.EntropyClustering`. MIADM as published makes
        pseudo-labels once per epoch.

    For the fitted attributes see `LinearSoftmax`.
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
            raise InputError(f"objective {self.objective!r} must name a dataclass, like those of clustering.deep")
        objective = kind()
        changes = {} if self.order == 1 else {"order": self.order}
        changes |= {} if self.smoothing is None else {"smoothing": self.smoothing}
        for name, value in changes.items():
            if not hasattr(objective, name):
                raise InputError(f"{name}={value:g}: objective {self.objective!r} has no {name}; remove it")
        return cast(Objective, dataclasses.replace(objective, **changes))
