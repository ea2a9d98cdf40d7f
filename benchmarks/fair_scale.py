"""Fair clustering of points as many as those of the US census of 1990: 2,458,285 of 25 numbers, two groups, K = 20.

Each fit has a process of its own, whose peak memory is reported with what the points alone take. A sweep over the
assignments is held against an iteration of scikit-learn's K-means on the same points and threads: the seconds of twelve
iterations less those of two, over ten.

    python benchmarks/fair_scale.py [kmeans | kmedian | sweep] [points] [weight=W]

Processor seconds stand beside those of the clock, of a machine that others may use, too.
"""

import resource
import subprocess
import sys
import time
import warnings
from functools import partial
from statistics import median

import numpy as np
import torch
from machine import describe
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning

from fairness import FairKMeans, FairKMedian
from fairness.datasets.census_like import CensusLike
from fairness.groups import groups_of
from fairness.optimiser.compressed import settle
from fairness.optimiser.penalty import Penalty
from fairness.optimiser.points import Points
from fairness.optimiser.prototypes import SquaredDistances

K, POINTS = 20, 2_458_285
WEIGHTS = (100.0, 10_000.0)
"""One that hardly matters at so many points, and that of the public code's run on the census; both of all points."""
THESIS = 632.5
"""Seconds of Fair K-median on the census in the thesis, on a machine that it does not name."""


def fit(kind: str, points: int, weight: float) -> None:
    made = CensusLike(points=points).read()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    method = {"kmeans": FairKMeans, "kmedian": FairKMedian}[kind]
    model = method(K, fairness_weight=weight * points / POINTS, n_init=1, random_state=0)
    began, used = time.perf_counter(), time.process_time()
    model.fit(made.values, sensitive_features=made.sensitive["sex"])
    seconds, used = time.perf_counter() - began, time.process_time() - used
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    sweeps = sum(step.sweeps for step in model.history_)
    print(
        f"{kind}, weight {weight:g}: {points:,} points, {seconds:.1f} s ({used:.1f} of the processor), "
        f"{seconds / THESIS:.2f} of the thesis' {THESIS} s; {len(model.history_)} updates and {sweeps} sweeps of all "
        f"points, converged {model.converged_}; "
        f"objective {model.objective_:.0f}, fairness error {model.fairness_error_:.4f}, "
        f"balance {model.balance_min_:.3f} (mean {model.balance_mean_:.3f}); "
        f"peak {peak:.2f} GiB, {before:.2f} of it before the fit"
    )
    if kind == "kmedian":
        print(f"  medoids are at most {model.medoid_excess_:.2%} above the best")


def sweep(points: int) -> None:
    """Sweeps as they are where a fit goes on: at the labels' means, T and B of some steps; processor seconds."""
    made = CensusLike(points=points).read()
    X, codes = made.values, made.sensitive["sex"]
    groups = groups_of(codes, points)
    values = torch.from_numpy(X - X.mean(axis=0))
    store = Points(values, torch.from_numpy(groups.cells), 2, K)
    cost = SquaredDistances(values[:K].double())
    labels, moments = store.assign(cost)
    cost = SquaredDistances(moments.sums / moments.counts.sum(dim=0)[:, None])
    logs = store.begin(labels, 0.1)
    penalty = Penalty.of(groups, WEIGHTS[-1] * points / POINTS)
    once = partial(store.sweep, logs, cost)
    there = settle(once, penalty, K, spread=4.0, dtype=torch.float32, max_iterations=8, tolerance=0.0)
    ours, theirs = [], []
    for _ in range(5):
        began = time.process_time()
        for _ in range(5):
            once(there.scale, there.shift, None)
        ours.append((time.process_time() - began) / 5)
        taken = []
        for iterations in (2, 12):
            began = time.process_time()
            KMeans(K, init=X[:K].copy(), n_init=1, max_iter=iterations, tol=0, algorithm="lloyd").fit(X)
            taken.append(time.process_time() - began)
        theirs.append((taken[1] - taken[0]) / 10)
    print(
        f"{points:,} points: a sweep {median(ours):.3f} s of processor, an iteration of Lloyd {median(theirs):.3f}, "
        f"ratio {median(ours) / median(theirs):.2f}"
    )


def main() -> None:
    chosen = [name for name in sys.argv[1:] if name.isalpha()]
    points = next((int(name) for name in sys.argv[1:] if name.isdigit()), POINTS)
    weights = [float(name.partition("=")[2]) for name in sys.argv[1:] if name.startswith("weight=")]
    if len(chosen) == 1 and (weights or chosen == ["sweep"]):
        warnings.simplefilter("ignore", ConvergenceWarning)
        sweep(points) if chosen == ["sweep"] else fit(chosen[0], points, weights[0])
        return
    print(describe())
    for name in chosen or ("sweep", "kmeans", "kmedian"):
        for weight in ("",) if name == "sweep" else WEIGHTS:
            own = [f"weight={weight}"] if weight else []
            subprocess.run([sys.executable, __file__, name, str(points), *own], check=True)


if __name__ == "__main__":
    np.seterr(all="raise", under="ignore")
    main()
