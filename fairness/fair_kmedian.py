"""Fair K-median (Ziko, Yuan, Granger and Ben Ayed, AAAI 2021; thesis chapter 3) as a scikit-learn estimator."""

from fairness.objectives import Kind
from fairness.prototype_clustering import PrototypeClustering


class FairKMedian(PrototypeClustering):
    """K-median whose clusters have the sensitive groups in target proportions, as closely as a weight demands.

    Minimises, over assignments S with rows on the simplex and medoids C, which are rows of X,

        E(S, C) = sum_pk s_pk ||x_p - c_k|| + weight sum_k KL(U || P_k),     P_k the groups' shares in cluster k,

    in the same way and with the same parameters as `FairKMeans`. Distances are not squared: the weight is in units of
    distances, and weights that matter grow with N / K and with X. The weight is raised with geometric medians, found by
    Weiszfeld's steps; medoids are then searched near them, and the rest of the fit minimises E with these. If there are
    few points, a medoid is also exchanged for another point as long as this lowers both E and E of the labels (a step
    of PAM).

    Parameters
    ----------
    Those of `fairness.fair_kmeans.FairKMeans`.

    Attributes
    ----------
    Those of `FairKMeans`, except for
    cluster_centers_ : (K, D) medoids of S, or of its labels if `prototypes` is "hard": rows of X up to rounding.
    objective_ : sum of distances of the points to the medoids of their labels, as reported in the papers.
    medoid_indices_ : (K,) rows of X that are the medoids of the labels, -1 for an empty cluster. They are exact in
        clusters of up to 4,096 points; in larger ones they are the best of the 64
        points nearest to the geometric median.
    medoid_excess_ : bound on the relative excess of objective_ over its value at exact medoids; 0 if they are exact.

    Examples
    --------
    >>> from fairness import FairKMedian
    >>> X = [[0.0], [0.1], [1.0], [1.1], [4.0], [4.1], [5.0], [5.1]]
    >>> sex = ["f", "f", "m", "m", "f", "f", "m", "m"]
    >>> FairKMedian(2, random_state=0).fit(X, sensitive_features=sex).balance_min_
    1.0
    """

    kind: Kind = "kmedian"
