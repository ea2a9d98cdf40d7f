"""K-means by scikit-learn, with the initialisation, normalisation and timing of the other estimators here."""

from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any, Literal

import numpy as np
import sklearn.cluster
import torch
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils.validation import _check_sample_weight

from clustering.estimator_input import checked_rows
from clustering.foundation.cores import shared_if_large
from clustering.foundation.parameters import AtLeast, validate_signature
from clustering.foundation.timing import Seconds, Stopwatch
from clustering.nearest_prototype import NearestPrototype
from clustering.numbering import numbered
from clustering.optimiser.rows import Rows
from clustering.seeding import first_seeds
from clustering.starts import first_lowest


@dataclass(eq=False, repr=False)
class KMeans(NearestPrototype, ClusterMixin, BaseEstimator):  # type: ignore[misc]
    """K-means: minimises sum_p ||x_p - m_{l_p}||^2 by scikit-learn's Lloyd iterations from several starts.

    It uses the same seeds as the other estimators here, so that methods can be compared from the same start, and
    reports the time of seeding and optimisation separately. For any other purpose use `sklearn.cluster.KMeans`. It runs
    on the CPU.

    Parameters
    ----------
    n_clusters : number of clusters K.
    init : "k-means++", "random" (distinct rows of X), or (K, D) initial means, in which case there is a single start.
    n_init : number of starts, of which the one with the lowest objective is kept; "auto" is 8, with which the objective
        of repeated fits hardly differs on the data of the papers.
    normalize : "l2" divides each row by its Euclidean norm and leaves zero rows unchanged; None uses the rows as given.
    max_iter, tol : as in `sklearn.cluster.KMeans`.
    random_state : seed or generator of the initialisations.

    Attributes
    ----------
    labels_ : (N,) int, index of the nearest mean.
    cluster_centers_ : (K, D) means, in the space of the normalised rows if `normalize` is set.
    objective_, inertia_ : sum of squared distances. start_objectives_ : (n_init,) objective of each start.
    n_iter_ : number of Lloyd iterations of the best start.
    seconds_ : time spent in the fit, see `clustering.foundation.timing.Seconds`. n_features_in_, feature_names_in_ : as
        in scikit-learn.
    """

    n_clusters: Annotated[int, AtLeast(1)] = 8
    _: KW_ONLY
    init: str | ArrayLike = "k-means++"
    n_init: Annotated[int, AtLeast(1)] | Literal["auto"] = 8
    normalize: Literal["l2"] | None = None
    max_iter: Annotated[int, AtLeast(1)] = 300
    tol: Annotated[float, AtLeast(0)] = 1e-4
    random_state: Any = None

    @shared_if_large
    def fit(
        self, X: ArrayLike, y: Any = None, *, sample_weight: ArrayLike | None = None, graph: Any = None
    ) -> "KMeans":
        """Cluster the rows of X, (N, D) finite; `y` is ignored, as in scikit-learn, and so is `graph`.

        Args:
            sample_weight: (N,) >= 0, how often each point counts in the objective, the means and the seeds.

        Raises:
            InputError: a parameter or X is invalid, or there are fewer distinct points than clusters.
        """
        validate_signature(self)
        rows = Rows.of(checked_rows(self, X, reset=True, normalize=self.normalize))
        watch = Stopwatch()
        mass = None
        if sample_weight is not None:
            mass = torch.from_numpy(_check_sample_weight(sample_weight, X, copy=True, ensure_non_negative=True))
        seeds = first_seeds(self.init, rows, self.n_clusters, self.n_init, self.random_state, mass=mass)
        seeding_seconds = watch.lap()
        values = rows.values.numpy()
        lloyd = sklearn.cluster.KMeans(self.n_clusters, n_init=1, max_iter=self.max_iter, tol=self.tol)
        starts = [
            sklearn.base.clone(lloyd).set_params(init=seed).fit(values, sample_weight=sample_weight)
            for seed in seeds.numpy()
        ]
        self.start_objectives_ = np.array([start.inertia_ for start in starts], dtype=np.float64)
        best = starts[int(first_lowest(self.start_objectives_, seeds.dtype))]
        self.labels_, order = numbered(self, best.labels_.astype(np.int64))
        self.cluster_centers_ = rows.absolute(torch.from_numpy(best.cluster_centers_)).numpy()[order]
        self.objective_ = self.inertia_ = float(best.inertia_)
        self.n_iter_ = int(best.n_iter_)
        self.seconds_ = Seconds(0.0, seeding_seconds, watch.lap())
        return self
