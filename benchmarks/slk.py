"""SLK on real data: what a start costs beside the exact graph, and what the starts and their selection are worth.

    TRANSDUCE_DATA=FOLDER python benchmarks/slk.py mnist mean_shift byproduct mean --starts 8 --weight 0.65
    TRANSDUCE_DATA=FOLDER python benchmarks/slk.py shuttle mean_shift byproduct mean --rows raw --select energy

Every start is a fit of its own (n_init=1), a fit has the default number of them, which race. The graph of exact
neighbours is built once, with as many threads as torch has. "by labels" is the best start by accuracy, which only
labels can tell. Costs are processor seconds, beside those of faiss's flat index, from 1,000 queries in the same run.
"""

import argparse
import os
import time
from pathlib import Path

import faiss
import numpy as np
import torch

from clustering import SLK
from clustering.graphs.neighbours import neighbours
from clustering.metrics import accuracy, nmi


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", choices=["mnist", "usps", "shuttle"])
    parser.add_argument("prototypes", nargs="+", choices=["mean_shift", "byproduct", "mean", "medoid"])
    parser.add_argument("--starts", type=int, default=8)
    parser.add_argument("--fits", type=int, default=3)
    parser.add_argument("--weight", type=float, nargs="+", default=[0.65])
    parser.add_argument("--rows", choices=["l2", "standard", "raw"], default="l2", help="what is done to them first")
    parser.add_argument("--bandwidth", type=float, default=1.0, help="times the one of the graph")
    parser.add_argument("--select", choices=["information", "energy"], default="information")
    given = parser.parse_args()
    with np.load(Path(os.environ["TRANSDUCE_DATA"]) / "clustering" / f"{given.data}.npz") as arrays:
        X = np.concatenate([arrays["x_train"], arrays["x_test"]]).astype(np.float32)
        y = np.unique(np.concatenate([arrays["y_train"], arrays["y_test"]]), return_inverse=True)[1]
    if given.rows == "l2":
        X /= np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-12)
    elif given.rows == "standard":
        X = (X - X.mean(axis=0)) / np.maximum(X.std(axis=0), 1e-12)
    K = int(y.max()) + 1
    graph = neighbours(X, 5, method="exact")
    print(f"{given.data} {X.shape}: exact neighbours {graph.seconds:.1f} s")
    more = {"bandwidth": given.bandwidth * graph.mean_squared_distance**0.5, "select": given.select}
    exact = faiss_seconds(X)
    print(f"faiss's flat index would take {exact:.0f} s of processor")
    print(f"all in one cluster: ACC {np.bincount(y).max() / len(y):.3f}")
    for prototypes in given.prototypes:
        for weight in given.weight:
            print(f"{prototypes} {weight:g}, ACC / NMI:", flush=True)
            if given.starts:
                found = fits(SLK(K, prototypes=prototypes, weight=weight, n_init=1, **more), given.starts, X, y, graph)
                at = {"by labels": found[:, 0].argmax(), "by energy": found[:, 2].argmin()}
                best = "  ".join(f"{name} {found[i, 0]:.3f} / {found[i, 1]:.3f}" for name, i in at.items())
                spread = f"mean {found[:, 0].mean():.3f} sd {found[:, 0].std():.3f} / {found[:, 1].mean():.3f}"
                print(f"  starts  {best}  {spread}  {np.median(found[:, 3]) / exact:.3f} of faiss each", flush=True)
            if given.fits:
                found = fits(SLK(K, prototypes=prototypes, weight=weight, **more), given.fits, X, y, graph)
                each = "  ".join(f"{row[0]:.3f} / {row[1]:.3f}" for row in found)
                spread = f"mean {found[:, 0].mean():.3f} sd {found[:, 0].std():.3f} / {found[:, 1].mean():.3f}"
                seconds = np.median(found[:, 3])
                print(f"  fits    {each}  {spread}  {seconds:.1f} s, {seconds / exact:.3f} of faiss each", flush=True)


def faiss_seconds(X: np.ndarray) -> float:
    """Processor seconds of an exact search for the neighbours of all rows."""
    index = faiss.IndexFlatL2(X.shape[1])
    index.add(X)
    faiss.omp_set_num_threads(torch.get_num_threads())
    began = time.process_time()
    index.search(X[:1000], 6)
    return (time.process_time() - began) * len(X) / 1000


def fits(model: SLK, count: int, X: np.ndarray, y: np.ndarray, graph: object) -> np.ndarray:
    """(count, 4) ACC, NMI, E and processor seconds of fits with different seeds."""
    rows = []
    for seed in range(count):
        began = time.process_time()
        model.set_params(random_state=seed).fit(X, graph=graph)
        taken = time.process_time() - began
        rows.append((accuracy(y, model.labels_), nmi(y, model.labels_), model.objective_, taken))
    return np.array(rows)


if __name__ == "__main__":
    main()
