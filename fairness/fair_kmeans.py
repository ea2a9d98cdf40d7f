"""Fair K-means (Ziko, Yuan, Granger and Ben Ayed, AAAI 2021; thesis chapter 3) as a scikit-learn estimator."""

from fairness.prototype_clustering import PrototypeClustering


class FairKMeans(PrototypeClustering):
    """K-means whose clusters have the sensitive groups in target proportions, as closely as a weight demands.

    Minimises, over labels and the means c of their clusters (thesis eq. 3.4, K-means of Table 3.1, for labels),

        E = sum_p ||x_p - c||^2 + weight sum_k KL(U || P_k),     P_k the groups' shares in cluster k,

    by moves of points between clusters, each of which lowers E (`fairness.optimiser.moves`): single points, shares of a
    cluster with the same part of each group, and pairs of points that change places. The thesis bounds E by tangents in
    soft assignments instead, whose step diverges at large weights and whose labels are less fair than the assignments
    if clusters are small. The fit starts from K-means, which is the result at weight 0, and raises the weight in rungs.

    Cost: a pass over N points takes about three times an iteration of Lloyd; some 20 to 100 passes a start. Memory: X
    and some numbers a point. With 200,000 points or more, starts and rungs use a sample of 100,000, and one start
    continues with all points.

    Parameters
    ----------
    n_clusters : number of clusters K.
    fairness_weight : lambda >= 0 of E, in units of the squared distances; weights that matter grow with N / K and with
        the square of X. None uses 10 times the sum of squared distances to one mean, divided by K, at which clusters
        are near the target. A goal, such as {"min_balance": 0.4}, searches for the weight whose labels have the lowest
        objective among those that reach it: max_error is the largest fairness_error_, min_balance the smallest
        balance_min_, 0..1. A goal that no clustering can reach raises an error; a goal that no trial reached raises a
        warning. A weight above 0 without groups, or with a single group, raises a warning.
    target : target shares U, either one share per group in sorted order or {group: share}; with several attributes,
        {attribute: either}. None uses the shares in the data.
    intersectional : whether several attributes define groups by the combinations that occur, rather than each attribute
        separately.
    small_groups : "error" rejects a group with fewer than K points; "keep" accepts it.
    init : "k-means++", or (K, D) initial means, in which case there is a single start.
    n_init : number of starts. The one with the fewest empty clusters is kept and, among those, the one with the lowest
        E.
    normalize : "l2" divides each row by its Euclidean norm and leaves zero rows unchanged; None uses the rows as given.
    max_iter, tol : maximum number of passes at each weight; relative change of E in a pass that counts as none. A fit
        ends when no move lowers E, or after three passes without a change.
    random_state : seed or generator of the initialisations.

    Attributes
    ----------
    labels_ : (N,) int, cluster of each point.
    cluster_centers_ : (K, D) means of the clusters, in the space of the normalised rows if `normalize` is set.
    fairness_weight_ : the weight used; 0 if there is a single group.
    weight_path_ : with a goal, `fairness.optimiser.weight_search.Trial` of each weight and start that was tried.
    objective_, inertia_ : sum of squared distances of the points to the means of their labels.
    fairness_error_ : sum over clusters of KL(U || P_k) of the labels, in nats. Shares below 1e-20 count as 1e-20.
    balance_min_, balance_mean_ : ratio of the smallest to the largest group in a cluster, minimum and mean over the
        clusters; NaN if no attribute has two groups.
    group_counts_ : (J, K) number of points of each group in each cluster.
    group_names_, target_ : (J,) names and target shares of the groups.
    absent_groups_ : (group, cluster) pairs without a point.
    n_empty_ : number of empty clusters.
    group_prices_ : (J, K) cost, beside the distance, of assigning a point of a group to a cluster, used by `predict`.
    history_ : `fairness.optimiser.moves.Update` of each pass, rungs included; none at weight 0. n_iter_ : number of
        passes, at least 1.
    converged_ : whether the passes ended before max_iter.
    seconds_ : time spent in the fit, see `clustering.foundation.timing.Seconds`; after `path`, the share of one weight.
    n_features_in_, feature_names_in_ : as in scikit-learn.

    Examples
    --------
    >>> from fairness import FairKMeans
    >>> X = [[0.0], [0.1], [1.0], [1.1], [4.0], [4.1], [5.0], [5.1]]
    >>> sex = ["f", "f", "m", "m", "f", "f", "m", "m"]
    >>> FairKMeans(2, random_state=0).fit(X, sensitive_features=sex).balance_min_
    1.0
    """

    kind = "kmeans"
