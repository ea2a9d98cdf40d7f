"""Fair K-median (Ziko, Yuan, Granger and Ben Ayed, AAAI 2021; thesis chapter 3) as a scikit-learn estimator."""

from fairness.objectives import Kind
from fairness.prototype_clustering import PrototypeClustering


class FairKMedian(PrototypeClustering):
    """K-median whose clusters have the groups in given proportions, as nearly as a weight asks for.

    Lowers, over assignments S with rows on the simplex and medoids C, which are rows of X,

        E(S, C) = sum_pk s_pk ||x_p - c_k|| + weight sum_k KL(U || P_k),     P_k the groups' shares in cluster k,

    as `FairKMeans` does, whose parameters it has. Distances are not squared: weights are in their units, and one that
    matters grows as N / K and as X. Geometric medians, found by steps of Weiszfeld, lead to the weight, and near them
    medoids are looked for, about which the rest of the fit lowers E. Where points are few, a medoid is also exchanged
    for another point as long as E falls by it, and E of the labels (a step of PAM).

    Parameters
    ----------
    Those of `FairKMeans`.

    Attributes
    ----------
    Those of `FairKMeans`, but
    cluster_centers_ : (K, D) medoids of S, or of its labels if `prototypes` is "hard": rows of X up to rounding.
    objective_ : sum of distances of the points to the medoids of their labels, as the papers report it.
    medoid_indices_ : (K,) rows of X that are the medoids of the labels, -1 of a cluster without points: exact in
        clusters of up to 4,096 points, else, and always of a `dask.array`, the best of the 64 points nearest to the
        geometric median.
    medoid_excess_ : by how much of itself objective_ is at most too large for that, 0 where exact.

    Examples
    --------
    >>> from fairness import FairKMedian
    >>> X = [[0.0], [0.1], [1.0], [1.1], [4.0], [4.1], [5.0], [5.1]]
    >>> sex = ["f", "f", "m", "m", "f", "f", "m", "m"]
    >>> FairKMedian(2, random_state=0).fit(X, sensitive_features=sex).balance_min_
    1.0
    """

    kind: Kind = "kmedian"
