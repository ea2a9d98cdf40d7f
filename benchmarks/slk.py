"""SLK on real data: what a start costs beside the exact graph, and what the starts and their selection are worth.

    TRANSDUCE_DATA=FOLDER python benchmarks/slk.py mnist mean_shift byproduct mean --starts 8 --weight 0.65

Every start is a fit of its own. The graph of exact neighbours is built once, with as many threads as torch has.
"label-selected" is the best start by accuracy, which only labels can tell.
"""

import argparse
import os
import time
from pathlib import Path

import numpy as np

from clustering import SLK
from clustering.metrics import accuracy, nmi
from clustering.neighbours import neighbours


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", choices=["mnist", "usps", "shuttle"])
    parser.add_argument("prototypes", nargs="+", choices=["mean_shift", "byproduct", "mean", "medoid"])
    parser.add_argument("--starts", type=int, default=8)
    parser.add_argument("--weight", type=float, nargs="+", default=[0.65])
    parser.add_argument("--graph", type=Path, help="a folder that keeps the neighbours")
    given = parser.parse_args()
    with np.load(Path(os.environ["TRANSDUCE_DATA"]) / "clustering" / f"{given.data}.npz") as arrays:
        X = np.concatenate([arrays["x_train"], arrays["x_test"]]).astype(np.float32)
        y = np.unique(np.concatenate([arrays["y_train"], arrays["y_test"]]), return_inverse=True)[1]
    X /= np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-12)
    K = int(y.max()) + 1
    graph = neighbours(X, 5, method="exact", cache=given.graph)
    print(f"{given.data} {X.shape}: exact neighbours {graph.seconds:.1f} s")
    for prototypes in given.prototypes:
        for weight in given.weight:
            rows = []
            for seed in range(given.starts):
                model = SLK(K, prototypes=prototypes, weight=weight, n_init=1, random_state=seed)
                wall, cpu = time.perf_counter(), time.process_time()
                model.fit(X, graph=graph)
                wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
                shares = np.bincount(model.labels_, minlength=K) / len(X)
                information = model.objective_ + len(X) * float((shares * np.log(np.maximum(shares, 1e-12))).sum())
                rows.append(
                    (accuracy(y, model.labels_), nmi(y, model.labels_), model.objective_, information, wall, cpu)
                )
            found = np.array(rows)
            chosen = {
                "by labels": found[:, 0].argmax(),
                "by energy": found[:, 2].argmin(),
                "by information": found[:, 3].argmin(),
            }
            best = "  ".join(f"{name} {found[at, 0]:.3f} / {found[at, 1]:.3f}" for name, at in chosen.items())
            spread = f"mean {found[:, 0].mean():.3f} sd {found[:, 0].std():.3f} / {found[:, 1].mean():.3f}"
            cost = f"{np.median(found[:, 4]):.1f} s a start ({np.median(found[:, 5]):.1f} s of processor)"
            print(f"{prototypes} {weight:g}: ACC / NMI {best}  {spread}  {cost}", flush=True)


if __name__ == "__main__":
    main()
