"""SLK fitted to a sample of MNIST and applied to all rows by blocks, against a fit of all rows: NMI, accuracy, seconds.

    OMP_NUM_THREADS=1 python benchmarks/sample_fit.py --root FOLDER [--sample 20000] [--seeds 3] [--block 5000]

The rows have unit norm, as in the papers. The sample is drawn uniformly.
"""

import argparse
import time

import numpy as np
from machine import describe
from sklearn.preprocessing import normalize

from clustering import SLK
from clustering.datasets.mnist import MNIST
from clustering.metrics import accuracy, nmi


def fit_and_predict(X: np.ndarray, rows: np.ndarray, block: int, seed: int) -> tuple[np.ndarray, float, float]:
    """The labels of all rows by a model of some of them; seconds of the fit and of `predict`."""
    start = time.perf_counter()
    model = SLK(10, random_state=seed).fit(X[rows])
    fitted = time.perf_counter()
    if len(rows) == len(X):
        return model.labels_, fitted - start, 0.0
    labels = np.concatenate([model.predict(X[first : first + block]) for first in range(0, len(X), block)])
    return labels, fitted - start, time.perf_counter() - fitted


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", required=True)
    parser.add_argument("--sample", type=int, default=20_000)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--block", type=int, default=5000)
    options = parser.parse_args()
    dataset = MNIST(root=options.root).read()
    X, y = normalize(dataset.values), dataset.labels
    assert y is not None
    print(describe())
    print(f"{'rows of the fit':>15} {'seed':>4} {'NMI':>6} {'accuracy':>8} {'fit, s':>7} {'predict, s':>10}")
    for seed in range(options.seeds):
        sample = np.sort(np.random.default_rng(seed).choice(len(X), options.sample, replace=False))
        for rows in (sample, np.arange(len(X))):
            labels, fit, predict = fit_and_predict(X, rows, options.block, seed)
            quality = nmi(y, labels), accuracy(y, labels)
            print(
                f"{len(rows):15,} {seed:4} {quality[0]:6.3f} {quality[1]:8.3f} {fit:7.1f} {predict:10.1f}", flush=True
            )


if __name__ == "__main__":
    main()
