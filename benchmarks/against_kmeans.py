"""FairKMeans and SLK against scikit-learn's K-means, in turns: python benchmarks/against_kmeans.py"""

from statistics import median
from time import process_time

import numpy as np
from machine import describe
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits, load_wine, make_blobs
from sklearn.preprocessing import scale
from turns import take_turns, threads, timed

from clustering import SLK
from fairness import FairKMeans

print(describe())
with threads(1):
    wine, draw = scale(load_wine().data), np.random.default_rng(0)
    blobs = [(make_blobs(n, 10, centers=10, cluster_std=3, random_state=0)[0], 10) for n in (2000, 20000)]
    for X, K in [(wine, 5), (wine, 20), (wine, 50), *blobs, (load_digits().data.astype("f4"), 10)]:
        fair, group = X.shape[1] < 64, draw.integers(0, 2, len(X))
        rival, model = KMeans(K, n_init=3 if fair else 10), FairKMeans(K) if fair else SLK(K)
        given = {"sensitive_features": group} if fair else {}
        fits = [lambda: rival.fit(X), lambda: model.fit(X, **given)]  # noqa: B023
        sides = {str(i): lambda fit=fit: timed(fit, process_time) for i, fit in enumerate(fits)}
        theirs, ours = (median(seconds) for seconds in take_turns(sides, 5).values())
        print(f"{type(model).__name__}, {len(X):,} points, K={K}: {ours:.3f} s, {ours / theirs:.1f} times K-means")
