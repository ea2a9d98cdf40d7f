"""Fair K-median (Ziko, Yuan, Granger and Ben Ayed, AAAI 2021; thesis chapter 3) as a scikit-learn estimator."""

from fairness.prototype_clustering import PrototypeClustering


class FairKMedian(PrototypeClustering):
    """K-median whose clusters have the sensitive groups in target proportions, as closely as a weight demands.

    Minimises, over labels and the medoids c of their clusters, which are rows of X,

        E = sum_p ||x_p - c|| + weight sum_k KL(U || P_k),     P_k the groups' shares in cluster k,

    in the same way and with the same parameters as `FairKMeans`. Distances are not squared: the weight is in units of
    distances, and weights that matter grow with N / K and with X. The fit starts from geometric medians, by Weiszfeld's
    steps. Medoids are renewed whenever moves have nearly stopped.

    Parameters
    ----------
    Those of `fairness.fair_kmeans.FairKMeans`.

    Attributes
    ----------
    Those of `FairKMeans`, except for
    cluster_centers_ : (K, D) medoids of the clusters: rows of X up to rounding.
    objective_ : sum of distances of the points to the medoids of their labels, as reported in the papers.
    medoid_indices_ : (K,) rows of X that are the medoids of the labels, -1 for an empty cluster. They are exact in
        clusters of up to 4,096 points; in larger ones they are the best of the 64 points nearest to the geometric
        median.
    medoid_excess_ : bound on the relative excess of objective_ over its value at exact medoids; 0 if they are exact.

    Examples
    --------
    >>> from fairness import FairKMedian
    >>> X = [[0.0], [0.1], [1.0], [1.1], [4.0], [4.1], [5.0], [5.1]]
    >>> sex = ["f", "f", "m", "m", "f", "f", "m", "m"]
    >>> FairKMedian(2, random_state=0).fit(X, sensitive_features=sex).balance_min_
    1.0
    """

    kind = "kmedian"
