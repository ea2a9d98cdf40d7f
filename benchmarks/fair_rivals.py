"""Fair clustering by other authors: what each costs beside K-means, how it grows with N, and what it finds.

    python benchmarks/fair_rivals.py --points 2000 8000 32000

Points are drawn about 15 centres in 5 dimensions, with two groups that are not where the other is. A method's time is
one fit with one start over the time of one start of scikit-learn's K-means on the same points; its exponent is that of
N between the two last sizes.
"""

import argparse
import math
import time
from typing import Any

import numpy as np
from machine import describe
from numpy.typing import NDArray
from sklearn.cluster import KMeans

import fairness.rivals
from fairness.objectives import kmeans_objective
from fairness.rivals import RIVALS


def draw(points: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    rng = np.random.default_rng(0)
    of = rng.integers(0, 15, points)
    group = (rng.random(points) < np.linspace(0.1, 0.6, 15)[of]).astype(np.int64)
    return 3 * rng.normal(size=(15, 5))[of] + rng.normal(size=(points, 5)), group


def table(sizes: list[int], clusters: int) -> None:
    print("| method | " + " | ".join(f"N = {size:,}" for size in sizes) + " | exponent | K-means objective | error |")
    print("| --- |" + " --- |" * (len(sizes) + 3))
    times: dict[str, list[float]] = {}
    found: dict[str, tuple[float, float]] = {}
    for size in sizes:
        X, group = draw(size)
        KMeans(clusters, n_init=1, random_state=0).fit(X)  # what comes once is not counted
        began = time.perf_counter()
        unfair = KMeans(clusters, n_init=1, random_state=0).fit(X)
        times.setdefault("K-means", []).append(time.perf_counter() - began)
        for name in RIVALS:
            model: Any = getattr(fairness.rivals, name)(clusters, n_init=1, random_state=0)
            if "kind" in model.get_params():
                model.set_params(kind="kmeans")
            model.fit(X, sensitive_features=group)
            times.setdefault(name, []).append(sum(model.seconds_))
            found[name] = kmeans_objective(X, model.labels_) / unfair.inertia_, model.fairness_error_
    for name, own in times.items():
        ratios = " | ".join(f"{seconds / base:.1f}" for seconds, base in zip(own, times["K-means"], strict=True))
        growth = math.log(own[-1] / own[-2]) / math.log(sizes[-1] / sizes[-2]) if len(sizes) > 1 else math.nan
        objective, error = found.get(name, (1.0, math.nan))
        print(f"| {name} | {ratios} | {growth:.2f} | {objective:.3f} | {error:.4f} |")
    print(f"one start of K-means: {', '.join(f'{seconds:.2f} s' for seconds in times['K-means'])}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=int, nargs="+", default=[2000, 8000, 32000])
    parser.add_argument("--clusters", type=int, default=10)
    given = parser.parse_args()
    print(describe())
    table(given.points, given.clusters)


if __name__ == "__main__":
    main()
