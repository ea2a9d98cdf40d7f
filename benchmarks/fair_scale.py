"""Fair clustering of points as many as those of the US census of 1990: 2,458,285 of 25 numbers, two groups, K = 20.

Each fit has a process of its own, whose peak memory is reported with what the points alone take. A sweep over the
assignments is held against an iteration of scikit-learn's K-means on the same points and threads: the seconds of twelve
iterations less those of two, over ten.

    python benchmarks/fair_scale.py [kmeans | kmedian | sweep] [points]

On a machine that others use, too, set OMP_NUM_THREADS=1: threads that wait for each other wait long there.
"""

import resource
import subprocess
import sys
import time
import warnings
from functools import partial

import numpy as np
import torch
from machine import describe
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning

from fairness import FairKMeans, FairKMedian
from fairness.datasets.census_like import CensusLike
from fairness.points import Points
from fairness.prototypes import SquaredDistances

K, POINTS = 20, 2_458_285
WEIGHT = 10_000.0
"""As in the public code's run on the census."""
THESIS = 632.5
"""Seconds of Fair K-median on the census in the thesis, on a machine that it does not name."""


def fit(kind: str, points: int) -> None:
    made = CensusLike(points=points).read()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    method = {"kmeans": FairKMeans, "kmedian": FairKMedian}[kind]
    model = method(K, fairness_weight=WEIGHT * points / POINTS, n_init=1, random_state=0)
    began = time.perf_counter()
    model.fit(made.values, sensitive_features=made.sensitive["sex"])
    seconds = time.perf_counter() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    sweeps = sum(step.sweeps for step in model.history_)
    print(
        f"{kind}: {points:,} points, {seconds:.1f} s, {seconds / THESIS:.2f} of the thesis' {THESIS} s; "
        f"{len(model.history_)} updates, {sweeps} sweeps, converged {model.converged_}; "
        f"objective {model.objective_:.0f}, fairness error {model.fairness_error_:.4f}, "
        f"balance {model.balance_min_:.3f} (mean {model.balance_mean_:.3f}); "
        f"peak {peak:.2f} GiB, {before:.2f} of it before the fit"
    )
    if kind == "kmedian":
        print(f"  medoids are at most {model.medoid_excess_:.2%} above the best")


def sweep(points: int) -> None:
    made = CensusLike(points=points).read()
    X, groups = made.values, made.sensitive["sex"]
    init = X[:K].copy()
    store = Points(torch.from_numpy(X), torch.from_numpy(groups), 2, K)
    cost = SquaredDistances(torch.from_numpy(init).double())
    store.begin(torch.zeros(points, dtype=torch.int64), 0.5)
    once = partial(store.sweep, cost, torch.ones(2).double(), torch.zeros(2, K).double(), None)
    ours, theirs = [], []
    for _ in range(3):
        began = time.perf_counter()
        for _ in range(5):
            once()
        ours.append((time.perf_counter() - began) / 5)
        taken = []
        for iterations in (2, 12):
            began = time.perf_counter()
            KMeans(K, init=init, n_init=1, max_iter=iterations, tol=0, algorithm="lloyd").fit(X)
            taken.append(time.perf_counter() - began)
        theirs.append((taken[1] - taken[0]) / 10)
    print(
        f"{points:,} points: a sweep {min(ours):.3f} s, an iteration of Lloyd {min(theirs):.3f} s, ratio "
        f"{min(ours) / min(theirs):.2f}"
    )


def main() -> None:
    chosen = [name for name in sys.argv[1:] if not name.isdigit()]
    points = next((int(name) for name in sys.argv[1:] if name.isdigit()), POINTS)
    if len(chosen) == 1:
        warnings.simplefilter("ignore", ConvergenceWarning)
        sweep(points) if chosen[0] == "sweep" else fit(chosen[0], points)
        return
    print(describe())
    for name in chosen or ("sweep", "kmeans", "kmedian"):
        subprocess.run([sys.executable, __file__, name, str(points)], check=True)


if __name__ == "__main__":
    np.seterr(all="raise", under="ignore")
    main()
