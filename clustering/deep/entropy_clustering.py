"""Entropy clustering of fixed features: a linear softmax with confident predictions and balanced clusters."""

from typing import Annotated, Any

from numpy.typing import ArrayLike

from clustering.deep.linear_clustering import LinearSoftmax
from clustering.deep.linear_heads import FASTEST, Relabel
from clustering.deep.objectives import Entropy, Solver
from clustering.estimator_input import Device
from clustering.foundation.parameters import Above, AtLeast, UpTo


class EntropyClustering(LinearSoftmax):
    """Discriminative entropy clustering by self-labelling (Zhang and Boykov, eq. 42), with labels of some or no points.

    Fits a linear softmax p of the features to pseudo-labels y that are close to its predictions and whose mean is close
    to the prior:

        margin_weight ||v||^2 + mean_i <p_i, -log y_i> + fairness_weight KL(prior || mean y),

    alternating over y and v on batches of points. Clusters are separated by hyperplanes, with a wide margin if
    margin_weight is small; unlike those of K-means they need not be round. Features count by their scale: standardise
    columns with different units.

    Parameters
    ----------
    n_clusters : number of clusters K.
    fairness_weight : lambda >= 0. At the paper's value of 100 the cluster sizes match the prior almost exactly in every
        batch.
    margin_weight : gamma >= 0, weight of the squared norm of v without bias. Points are first divided by the root of
        their mean squared distance from their mean, so that the effect of gamma does not depend on the scale of X; in
        the units of X the weight is gamma times that mean squared distance. At 0 there is no minimum. Large weights
        merge clusters that are small and far apart.
    prior : (K,) expected relative sizes of the clusters, above 0. "balanced" expects equal sizes, which should be known
        rather than hoped for: a wrong prior splits and merges clusters until their sizes match it.
    solver : solver of the pseudo-labels, see `clustering.deep.objectives.Entropy`.
    pseudo_labels : whether pseudo-labels are made for each batch, or for all points once per epoch.
    init_norm : norm of the initial v. Above 1 the starts differ from the first step on, which helps to find thin
        elongated clusters.
    n_init : number of starts; the one with the lowest objective is kept.
    max_iter, batch_size, learning_rate : number of Adam steps, points per step, and initial learning rate, which decays
        to 0.
    device : "cpu", "cuda", or "auto", which uses CUDA if it is available.
    random_state : seed or generator of the initialisations and batches.

    For the fitted attributes see `LinearSoftmax`.
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
