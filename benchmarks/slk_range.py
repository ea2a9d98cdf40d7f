"""SLK's defaults over numbers of clusters and weights, beside K-means and the public code's run.

    TRANSDUCE_DATA=FOLDER python benchmarks/slk_range.py digits blobs mnist usps shuttle

Rows are L2-normalised, of MNIST, USPS and Shuttle 2,000 drawn at random. Shown are the NMI (geometric) with the classes
of K-means (scikit-learn, 4 starts), of SLK for each weight (in brackets the clusters without points, where there are
some), and of the preset slk2018-ms with the same weight.
"""

import argparse
import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits, make_blobs
from sklearn.preprocessing import normalize

from clustering import SLK
from clustering.graphs.neighbours import neighbours
from clustering.metrics import nmi

POINTS = 2000


def read(name: str) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    if name == "digits":
        digits = load_digits()
        return normalize(digits.data.astype(np.float32)), digits.target
    if name == "blobs":
        X, y = make_blobs(POINTS, 8, centers=40, cluster_std=1.5, random_state=0)
        return normalize(X.astype(np.float32)), y
    with np.load(Path(os.environ["TRANSDUCE_DATA"]) / "clustering" / f"{name}.npz") as arrays:
        X = np.concatenate([arrays["x_train"], arrays["x_test"]]).astype(np.float32)
        y = np.concatenate([arrays["y_train"], arrays["y_test"]])
    some = np.random.default_rng(0).permutation(len(X))[:POINTS]
    return normalize(X[some].reshape(POINTS, -1)), y[some]


def shown(y: NDArray[np.int64], model: Any) -> str:
    """NMI, and clusters without points."""
    empty = model.n_clusters - len(np.unique(model.labels_))
    return f"{nmi(y, model.labels_):.3f}" + (f"({empty})" if empty else "")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", nargs="+", choices=["digits", "blobs", "mnist", "usps", "shuttle"])
    parser.add_argument("--clusters", type=int, nargs="+", default=[2, 5, 10, 20, 50, 100, 200])
    parser.add_argument("--weight", type=float, nargs="+", default=[0.05, 0.2, 0.65, 2.0, 5.0])
    parser.add_argument("--starts", type=int, default=8)
    parser.add_argument("--prototypes", default="mean_shift", choices=["mean_shift", "byproduct", "mean"])
    given = parser.parse_args()
    warnings.simplefilter("ignore")  # of clusters without points
    preset = {"mean_shift": "slk2018-ms", "byproduct": "slk2018-bo", "mean": "journal-means"}[given.prototypes]
    print("data      K     K-means  " + "".join(f"{weight:<12g}" for weight in given.weight) + "  (SLK / published)")
    for name in given.data:
        X, y = read(name)
        graph = neighbours(X, 5)
        for K in given.clusters:
            means = KMeans(K, n_init=4, random_state=0).fit(X)
            cells = []
            for weight in given.weight:
                model = SLK(K, prototypes=given.prototypes, weight=weight, n_init=given.starts, random_state=0)
                published = SLK.preset(preset, n_clusters=K, weight=weight, random_state=0)
                cells.append(f"{shown(y, model.fit(X, graph=graph))}/{shown(y, published.fit(X))}")
            print(f"{name:8}  {K:<4}  {nmi(y, means.labels_):.3f}    " + "  ".join(cells), flush=True)


if __name__ == "__main__":
    main()
