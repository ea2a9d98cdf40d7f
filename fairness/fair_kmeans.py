"""Fair K-means (Ziko, Yuan, Granger and Ben Ayed, AAAI 2021; thesis chapter 3) as a scikit-learn estimator."""

from fairness.objectives import Kind
from fairness.prototype_clustering import PrototypeClustering


class FairKMeans(PrototypeClustering):
    """K-means whose clusters have the groups in given proportions, as nearly as a weight asks for.

    Lowers, over assignments S with rows on the simplex and means C (thesis eq. 3.4, K-means of Table 3.1),

        E(S, C) = sum_pk s_pk ||x_p - c_k||^2 + weight sum_k KL(U || P_k),     P_k the groups' shares in cluster k,

    by mirror steps for S that are guarded, so that E never rises at any weight, and the means in turn. It begins at the
    unfair solution, which is the result at weight 0, and comes to the weight in rungs. Where a cluster's labels lack a
    group at the end, and it is small, its prototype is tried at other points, and stays there if E of the labels falls.
    Between two updates of the means, S is known by C + C K numbers (`fairness.optimiser.compressed`), C the
    combinations of groups that occur; a sweep over N points takes about twice the time of an iteration of Lloyd.
    Memory: besides X, two copies of it and N K numbers. Of 200,000 points or more, starts and rungs see a sample of
    100,000, and one start goes on with all points.

    Parameters
    ----------
    n_clusters : K.
    fairness_weight : lambda >= 0 of E, in units of the squared distances; one that matters grows as N / K, and as the
        square of X. None: 10 of the sum of squared distances to one mean, over K, where clusters are near the target.
        "auto": the one whose labels have the lowest objective of those that reach a goal. Without groups, or with one
        group alone, a weight above 0 is warned of.
    max_error, min_balance : the goal of "auto", one or both: fairness_error_ at most, 0 or more; balance_min_ at least,
        0..1. What no clustering can reach is an error, and what none that was found reaches, a warning.
    target : U, shares of the groups in their sorted order or {group: share}, of several attributes {attribute: either};
        None: those of the data.
    intersectional : several attributes count by the combinations that occur, not each for itself.
    numeric_bins : attributes that are numbers in so many bins of equally many points, or by edges, or {name: either}.
    missing : points without a value are an "error", or an "own_group".
    small_groups : a group of fewer than K points is an "error", or is kept ("keep").
    init : "k-means++", or (K, D) first means, then one start only.
    n_init : starts, of which that of fewest empty clusters, and of those the one whose labels have the lowest E, is the
        result: objective_ + weight fairness_error_, about the prototypes of S.
    rungs : weights between the unfair solution and the weight, at most.
    mixing : share of a point's assignment that is spread over all clusters when S begins from labels.
    prototypes : of S ("soft", thesis Table 3.1), under which E never rises, or of its labels ("hard"), as in the public
        code.
    pseudo_count : e of the term, in points: it stays finite where a group leaves a cluster.
    rounding : labels are the largest assignments ("argmax", papers), or those of points between clusters are chosen so
        that each cluster has as many of each group as S has, within one, which may be none ("flow").
    normalize : "l2": rows are divided by their length; zero rows stay.
    max_iter, tol : updates of the means at most, at each weight; relative change of E at which they end.
    max_sweeps, sweep_tol : likewise of S between two updates.
    gap_tol : the fit ends only where the stationarity gap of S is no larger than this share of E.
    device : "cpu", "cuda", or "auto", which is cuda where there is one.
    random_state : seed of the starts.

    Attributes
    ----------
    labels_ : (N,) int; a `dask.array` of a `dask.array`.
    cluster_centers_ : (K, D) means of S, or of its labels if `prototypes` is "hard"; of normalised rows if `normalize`.
    fairness_weight_ : the weight, where the parameter was None or "auto" or there is one group, for which it is 0.
    weight_path_ : of "auto", `fairness.optimiser.weight_search.Trial` of all weights and starts that were tried.
    objective_ : sum of squared distances of the points to the means of their labels.
    fairness_error_ : sum over clusters of KL(U || P_k) of the labels, in nats; soft_fairness_error_ : of S. Of both a
        share below 1e-20 counts as that.
    balance_min_, balance_mean_ : least over largest group of a cluster, over the clusters.
    group_counts_ : (J, K) points. group_names_, target_ : (J,). absent_groups_ : (group, cluster) without a point.
    n_empty_ : clusters without points.
    group_prices_ : (J, K) what a point of a group pays for a cluster beside its distance, used by `predict`.
    relaxed_objective_ : E. gap_ : how far from stationary S is, in units of E.
    history_ : `fairness.optimiser.climb.Progress` of each update of all points; n_iter_ : how many.
    converged_ : whether tol ended them.
    seconds_ : `clustering.foundation.timing.Seconds` of the fit; of `path`, its share.
    n_features_in_, feature_names_in_ : of scikit-learn.

    Examples
    --------
    >>> from fairness import FairKMeans
    >>> X = [[0.0], [0.1], [1.0], [1.1], [4.0], [4.1], [5.0], [5.1]]
    >>> sex = ["f", "f", "m", "m", "f", "f", "m", "m"]
    >>> FairKMeans(2, random_state=0).fit(X, sensitive_features=sex).balance_min_
    1.0
    """

    kind: Kind = "kmeans"
