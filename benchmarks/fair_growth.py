"""Seconds and memory of Fair K-means by the number of points, clusters and groups, and of others where they can run.

Points are those of `fairness.datasets.census_like`, whose two groups are divided by chance where more are asked for.
Beside the fit stands one sweep over the assignments, against the same step with arrays of N x K x J numbers, as
implementations have it that follow the papers' formulae (`dense_step` below), and the fits of Backurs et al. and
Bera et al. Seconds are of the processor, so that they tell something on a machine that others use, too.

    python benchmarks/fair_growth.py [PICTURE.png]
"""

import resource
import subprocess
import sys
import time
import warnings
from functools import partial
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import torch
from machine import describe

from clustering.foundation.streams import stream
from fairness import FairKMeans
from fairness.datasets.census_like import CensusLike
from fairness.groups import groups_of
from fairness.optimiser.points import Points
from fairness.optimiser.prototypes import SquaredDistances
from fairness.rivals import Backurs, Bera

POINTS, CLUSTERS, GROUPS = (10_000, 31_600, 100_000, 316_000), (5, 10, 20, 40), (2, 4, 8, 16)
K, J, N = 20, 2, 31_600
LONGEST = 12.0
"""Seconds that a side other than ours may be expected to take."""


def given(points: int, groups: int) -> tuple[Any, Any]:
    """Rows (N, 25) and codes (N,); with more than two groups, these divide the two of the generator."""
    made = CensusLike(points=points).read()
    codes = np.asarray(made.sensitive["sex"])
    drawn = stream(0, "fair growth").random(points)
    return made.values, codes * (groups // 2) + (drawn * (groups // 2)).astype(np.int64)


def dense_step(S: Any, a: Any, V: Any, target: Any, weight: float, L: float) -> Any:
    """One step of the papers for S (N, K) with costs (N, K) and groups (J, N), by arrays of (J, N, K) numbers."""
    sizes = S.sum(axis=0)
    by_group = (V[:, :, None] * S[None]).sum(axis=1)  # (J, K), by way of (J, N, K)
    slopes = target[:, None, None] * (1 / sizes[None, None] - V[:, :, None] / by_group[:, None])
    exponent = -(a + weight * slopes.sum(axis=0)) / L
    new = S * np.exp(exponent - exponent.max(axis=1, keepdims=True))
    return new / new.sum(axis=1, keepdims=True)


def cpu(work: Any) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def measure(kind: str, points: int, clusters: int, groups: int) -> None:
    """Print processor seconds and the peak memory beyond the data, in GiB."""
    X, codes = given(points, groups)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    if kind == "dense":
        a = np.square(X).sum(axis=1)[:, None] - 2 * X @ X[:clusters].T
        S = np.full_like(a, 1 / clusters)
        V = (codes == np.arange(groups)[:, None]).astype(np.float32)
        target = V.mean(axis=1)
        seconds = min(cpu(lambda: dense_step(S, a, V, target, np.float32(1e3), np.float32(2))) for _ in range(3))
    elif kind == "sweep":
        made = groups_of(codes, points)
        store = Points(torch.from_numpy(X), torch.from_numpy(made.cells), groups, clusters)
        cost = SquaredDistances(torch.from_numpy(X[:clusters].astype(np.float64)))
        logs = store.begin(store.assign(cost)[0], 0.1)
        scale, shift = torch.full((groups,), 100.0).double(), torch.zeros(groups, clusters).double()
        seconds = min(cpu(partial(store.sweep, logs, cost, scale, shift, None)) for _ in range(3))
    else:
        methods = {"fit": FairKMeans, "Backurs et al.": Backurs, "Bera et al.": Bera}
        settings: dict[str, Any] = {"n_init": 1, "max_iter": 20} if kind == "fit" else {}
        model = methods[kind](clusters, random_state=0, **settings)
        seconds = cpu(lambda: model.fit(X, sensitive_features=codes))
    peak = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 2**20
    print(f"{seconds:.4f} {peak:.3f}")


def ask(kind: str, points: int, clusters: int, groups: int) -> tuple[float, float]:
    """`measure` in a process of its own, so that its peak is its own."""
    command = [sys.executable, __file__, "measure", kind, str(points), str(clusters), str(groups)]
    found = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    print(f"{kind:15s} N {points:9,} K {clusters:3d} J {groups:3d}  {found[0]:>9s} s  {found[1]} GiB", flush=True)
    return float(found[0]), float(found[1])


def exponent(sizes: Any, seconds: Any) -> float:
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


def main() -> None:
    print(describe())
    figure, axes = plt.subplots(1, 3, figsize=(10, 3.4), layout="constrained", sharey=True)
    for kind in ("fit", "sweep", "dense", "Backurs et al.", "Bera et al."):
        seconds: list[float] = []
        for points in POINTS:
            if kind not in ("fit", "sweep") and seconds and 3.5 * seconds[-1] > LONGEST:
                break
            seconds.append(ask(kind, points, K, J)[0])
        axes[0].loglog(POINTS[: len(seconds)], seconds, "o-", label=kind)
        print(f"{kind}: seconds grow with N^{exponent(POINTS[: len(seconds)], seconds):.2f}")
    for axis, name, sizes in ((axes[1], "clusters", CLUSTERS), (axes[2], "groups", GROUPS)):
        for kind, colour in (("fit", "C0"), ("sweep", "C1"), ("dense", "C2")):
            found = [ask(kind, N, *((size, J) if name == "clusters" else (K, size)))[0] for size in sizes]
            axis.loglog(sizes, found, "o-", color=colour)
            print(f"{kind}: from {sizes[0]} to {sizes[-1]} {name}, {found[-1] / found[0]:.2f} times the seconds")
        axis.set_xlabel(name)
        axis.set_xticks(sizes, [str(size) for size in sizes], minor=False)
        axis.minorticks_off()
    axes[0].set_xlabel("points")
    axes[0].set_ylabel("processor seconds")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside right center", frameon=False)
    if len(sys.argv) > 1:
        figure.savefig(sys.argv[1], dpi=110)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    if sys.argv[1:2] == ["measure"]:
        measure(sys.argv[2], *(int(value) for value in sys.argv[3:]))
    else:
        main()
