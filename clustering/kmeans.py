"""K-means, by scikit-learn, with the start, the normalisation and the clock of the other estimators here."""

from typing import Annotated, Any, Literal

import numpy as np
import sklearn.cluster
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils.validation import check_is_fitted

from clustering.estimator_input import checked_rows
from clustering.foundation.cores import shared_if_large
from clustering.foundation.parameters import AtLeast, validate_signature
from clustering.foundation.timing import Seconds, Stopwatch
from clustering.graphs.sparse_rows import SparseRows, nearest_centres, rows_of
from clustering.numbering import numbered
from clustering.seeding import first_seeds
from clustering.starts import first_lowest


class KMeans(ClusterMixin, BaseEstimator):  # type: ignore[misc]
    """K-means: the lowest sum_p ||x_p - m_{l_p}||^2 of several starts, each by scikit-learn's Lloyd iterations.

    It begins at the very seeds of the other estimators, so that methods can be compared from the same start, and says
    how long seeding and optimisation took. For anything else take `sklearn.cluster.KMeans`. It runs on the CPU.

    Parameters
    ----------
    n_clusters : K.
    init : "k-means++", or (K, D) first means, then one start only.
    n_init : starts, of which the lowest objective is the result.
    normalize : "l2": rows are divided by their length, zero rows stay. None: as they are.
    max_iter, tol : of scikit-learn.
    random_state : seed of the starts.

    Attributes
    ----------
    labels_ : (N,) int, the nearest mean.
    cluster_centers_ : (K, D) means, of normalised rows if `normalize`.
    objective_ : the sum of squared distances. start_objectives_ : (n_init,) that of every start.
    n_iter_ : Lloyd iterations of the result.
    seconds_ : `clustering.foundation.timing.Seconds` of the fit. n_features_in_, feature_names_in_ : of scikit-learn.
    """

    def __init__(
        self,
        n_clusters: Annotated[int, AtLeast(1)] = 8,
        *,
        init: str | ArrayLike = "k-means++",
        n_init: Annotated[int, AtLeast(1)] = 8,
        normalize: Literal["l2"] | None = None,
        max_iter: Annotated[int, AtLeast(1)] = 300,
        tol: Annotated[float, AtLeast(0)] = 1e-4,
        random_state: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.init = init
        self.n_init = n_init
        self.normalize = normalize
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state

    @shared_if_large
    def fit(self, X: ArrayLike, y: Any = None, *, graph: Any = None) -> "KMeans":
        """Cluster the rows of X, (N, D) finite, dense or scipy sparse; `y` is ignored, as in scikit-learn, and `graph`.

        Raises:
            InputError: a parameter or X that cannot be; fewer distinct points than clusters.
        """
        validate_signature(self)
        rows = rows_of(checked_rows(self, X, reset=True, normalize=self.normalize, accept_sparse=True))
        watch = Stopwatch()
        seeds = first_seeds(self.init, rows, self.n_clusters, self.n_init, self.random_state)
        if rows.origin is not None:
            seeds = seeds + rows.origin
        seeding_seconds = watch.lap()
        values = rows.values.scipy() if isinstance(rows, SparseRows) else rows.values.numpy()
        lloyd = sklearn.cluster.KMeans(self.n_clusters, n_init=1, max_iter=self.max_iter, tol=self.tol)
        starts = [sklearn.base.clone(lloyd).set_params(init=seed).fit(values) for seed in seeds.numpy()]
        self.start_objectives_ = np.array([start.inertia_ for start in starts], dtype=np.float64)
        best = starts[int(first_lowest(self.start_objectives_, seeds.dtype))]
        self.labels_, order = numbered(self, best.labels_.astype(np.int64))
        self.cluster_centers_ = best.cluster_centers_[order]
        self.objective_, self.n_iter_ = float(best.inertia_), int(best.n_iter_)
        self.seconds_ = Seconds(0.0, seeding_seconds, watch.lap())
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def predict(self, X: ArrayLike) -> NDArray[np.int64]:
        """(n,) the nearest mean of each of the rows of X (n, D)."""
        check_is_fitted(self)
        values = checked_rows(self, X, reset=False, normalize=self.normalize, accept_sparse=True)
        return nearest_centres(values, torch.from_numpy(self.cluster_centers_).to(values.dtype)).cpu().numpy()
