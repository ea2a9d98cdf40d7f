"""Entropy clustering of fixed features: a linear softmax that is decided about every point, and fair to every class."""

from typing import Annotated, Any

from numpy.typing import ArrayLike

from clustering.deep.linear_clustering import LinearSoftmax
from clustering.deep.linear_heads import FASTEST, Relabel
from clustering.deep.objectives import Entropy, Solver
from clustering.estimator_input import Device
from clustering.foundation.parameters import Above, AtLeast, UpTo


class EntropyClustering(LinearSoftmax):
    """Discriminative entropy clustering by self-labelling (Zhang and Boykov, eq. 42), with labels of some or no points.

    A linear softmax p of the features is fitted to pseudo-labels y that are near to its predictions, and whose mean is
    near to the prior:

        margin_weight ||v||^2 + mean_i <p_i, -log y_i> + fairness_weight KL(prior || mean y),

    y and v in turns on batches of points. Clusters are bounded by hyperplanes, which for a small margin_weight leave a
    wide margin; they need not be round, as those of K-means are. Features count by their scale: standardise columns
    whose units differ.

    Parameters
    ----------
    n_clusters : K.
    fairness_weight : lambda >= 0. At the paper's 100 the labels have the prior's sizes nearly exactly, in every batch.
    margin_weight : gamma >= 0, of the squared norm of v without bias. Points are first divided by the root of their
        mean squared distance from their mean, so that gamma does the same whatever the scale of X; the weight of a v in
        units of X is gamma times that mean squared distance. At 0 there is no minimum; large weights join clusters that
        are small and far apart.
    prior : expected sizes of the clusters in proportion, (K,) above 0; "balanced" says that all are alike, which should
        be known, not hoped for: where it is wrong clusters are cut and joined until it is right.
    solver : of the pseudo-labels, see `clustering.deep.objectives.Entropy`.
    pseudo_labels : made for each batch, or for all points once an epoch.
    init_norm : of the first v. Above 1 starts differ from the first step on, and thin elongated clusters may be found.
    n_init : starts, of which the lowest objective is the result.
    max_iter, batch_size, learning_rate : steps of Adam, points in each, and its first rate, which falls to 0.
    device : "cpu", "cuda", or "auto", which is cuda where there is one.
    random_state : seed of the starts and batches.

    What is learned: see `LinearSoftmax`.
    """

    def __init__(
        self,
        n_clusters: Annotated[int, AtLeast(1)] = 8,
        *,
        fairness_weight: Annotated[float, AtLeast(0)] = 100.0,
        margin_weight: Annotated[float, AtLeast(0)] = 3e-4,
        prior: str | ArrayLike = "balanced",
        solver: Solver = "em",
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
        self.fairness_weight = fairness_weight
        self.margin_weight = margin_weight
        self.prior = prior
        self.solver = solver
        self.pseudo_labels = pseudo_labels
        self.init_norm = init_norm
        self.n_init = n_init
        self.max_iter = max_iter
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.device = device
        self.random_state = random_state

    def network_objective(self) -> Entropy:
        """See `LinearSoftmax`."""
        return Entropy(fairness=self.fairness_weight, solver=self.solver)
