"""SLK beside scikit-learn's clusterers on real data: quality, and seconds of one core.

    TRANSDUCE_DATA=FOLDER OMP_NUM_THREADS=1 python benchmarks/clusterers.py usps shuttle mnist

Rows are L2-normalised, as the papers do. Every method that takes a number of starts has eight, of which it keeps one
without labels; those on a graph have the same one, built once (`graph`, no part of their other columns). ACC and NMI
are means over seeds with their standard deviations, seconds are medians. HDBSCAN is not told the number of clusters;
its noise is one cluster to NMI and wrong to ACC. It and spectral clustering are left out of more than 20,000 points,
HDBSCAN not where columns are few, and a tree finds its neighbours.
"""

import argparse
import os
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from machine import describe
from numpy.typing import NDArray
from sklearn.cluster import HDBSCAN, KMeans, MiniBatchKMeans, SpectralClustering
from sklearn.preprocessing import normalize

from clustering import SLK
from clustering.datasets import DATASETS
from clustering.graphs.neighbours import NeighbourGraph, neighbours
from clustering.graphs.row_graph import scipy_graph
from clustering.metrics import accuracy, nmi

STARTS = 8
SPECTRAL_UP_TO, HDBSCAN_UP_TO = 20_000, 20_000
"""Points."""

Fit = Callable[[int], tuple[NDArray[Any], tuple[float, float]]]
"""Of a seed: labels, and seconds of seeding and of optimisation; scikit-learn's are one."""


def slk(X: NDArray[np.float32], clusters: int, near: NeighbourGraph, prototypes: Any) -> Fit:
    def fit(seed: int) -> tuple[NDArray[Any], tuple[float, float]]:
        model = SLK(clusters, prototypes=prototypes, n_init=STARTS, random_state=seed).fit(X, graph=near)
        return model.labels_, model.seconds_[1:]

    return fit


def theirs(make: Callable[[int], Any], X: Any) -> Fit:
    def fit(seed: int) -> tuple[NDArray[Any], tuple[float, float]]:
        began = time.perf_counter()
        labels = make(seed).fit(X).labels_
        return labels, (0.0, time.perf_counter() - began)

    return fit


def methods(X: NDArray[np.float32], clusters: int, near: NeighbourGraph) -> dict[str, tuple[Fit | None, bool]]:
    """By name, each with whether it stands on the graph; None where it is left out."""
    points, columns = X.shape
    spectral = theirs(
        lambda seed: SpectralClustering(clusters, affinity="precomputed", n_init=STARTS, random_state=seed),
        scipy_graph(near.graph),
    )
    density = theirs(lambda seed: HDBSCAN(min_cluster_size=max(5, points // 1000), copy=True), X)
    return {
        "KMeans": (theirs(lambda seed: KMeans(clusters, n_init=STARTS, random_state=seed), X), False),
        "MiniBatchKMeans": (theirs(lambda seed: MiniBatchKMeans(clusters, n_init=STARTS, random_state=seed), X), False),
        "SpectralClustering": (spectral if points <= SPECTRAL_UP_TO else None, True),
        "HDBSCAN": (density if points <= HDBSCAN_UP_TO or columns <= 10 else None, False),
        "SLK-MS": (slk(X, clusters, near, "mean_shift"), True),
        "SLK-BO": (slk(X, clusters, near, "byproduct"), True),
        "SLK-Means": (slk(X, clusters, near, "mean"), True),
    }


def scored(truth: NDArray[Any], labels: NDArray[Any]) -> tuple[float, float]:
    """ACC and NMI."""
    clear = labels >= 0
    share = accuracy(truth[clear], labels[clear]) * clear.mean() if clear.any() else 0.0
    return float(share), nmi(truth, labels)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("datasets", nargs="+")
    parser.add_argument("--seeds", type=int, default=3)
    given = parser.parse_args()
    print(describe())
    print("| data | method | ACC | NMI | graph | seeding | optimise | processor |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for name in given.datasets:
        root = Path(os.environ["TRANSDUCE_DATA"]) / "clustering"
        data = DATASETS.load(name)(root=str(root)).read()
        X, truth = np.asarray(normalize(data.values), dtype=np.float32), data.labels
        clusters = len(np.unique(truth))
        near = neighbours(X, 5, method="exact")
        for method, (fit, on_graph) in methods(X, clusters, near).items():
            if fit is None:
                print(f"| {name} | {method} | left out | | | | |", flush=True)
                continue
            scores, seconds, processor = [], [], []
            for seed in range(given.seeds if method != "HDBSCAN" else 1):
                began = time.process_time()
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # of starts that did not converge
                    labels, parts = fit(seed)
                processor.append(time.process_time() - began)
                scores.append(scored(truth, labels))
                seconds.append(parts)
            means, spreads = np.mean(scores, axis=0), np.std(scores, axis=0)
            seeding, optimise = np.median(seconds, axis=0)
            cells = [f"{mean:.3f} ± {sd:.3f}" for mean, sd in zip(means, spreads, strict=True)]
            cells.append(f"{near.seconds:.1f}" if on_graph else "")
            cells.append(f"{seeding:.1f}" if seeding else "")
            cells += [f"{optimise:.1f}", f"{np.median(processor):.1f}"]
            print(f"| {name} | {method} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
